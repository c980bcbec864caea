"""A session of a run: everything that trains, put together as new or as it was saved."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from arena.environments import EnvironmentSpec, declare
from arena.policies import NetworkPolicy
from league.wire import RoleNumbers
from trainer import state
from trainer.archive import Archive, Parts, attachment_of
from trainer.batches import open_batches
from trainer.checks import check_discount, check_minibatches
from trainer.collector import Collector, Episode
from trainer.correspondence import Correspondence
from trainer.disk import Disk
from trainer.distributed import ALONE, Ranks
from trainer.folder import RunFolder
from trainer.health import Monitor
from trainer.history import Setup
from trainer.leading import Lead
from trainer.learner import Learner
from trainer.leases import LeaseBook
from trainer.lessons import Course
from trainer.link import Link
from trainer.membership import Attachment, Membership
from trainer.metrics import Scoreboard
from trainer.opponents import SELF, DiskCache, Opponent, OpponentPool
from trainer.provenance import Provenance
from trainer.publishing import Publisher
from trainer.records import remembered
from trainer.resuming import check_changes, check_origin
from trainer.settings import TrainerConfig
from trainer.spool import Spool
from trainer.state import SavedState
from trainer.surroundings import Surroundings
from trainer.terminal import Terminal
from trainer.turns import Turns

COMPILING = "kernels are compiled at the first use"


class Session:
    """One learner's run in its folder, which must be taken.

    Args:
        config: Settings.
        folder: Where the run is kept.
        link: The league.
        version: Of this program.
        terminal: Tells a person how it goes.
        outside: Time and signals.
        ranks: With whom it learns, as rank 0.
        own: This rank's share of the settings; all of them where it is alone.

    Attributes:
        course: Lessons of the environments; None without a curriculum.
        learner: Learns.
        scores: Of recent matches.
        monitor: Of its health.
        book: Deals matches.
        spool: Results on their way.
        publisher: Snapshots on theirs.
        letters: Brings both there.
        archive: What a restart goes on from.
        provenance: How the run was made.
        collector: Plays.
        lead: Speaks to the other ranks.
        disk: Writes where the disk may be full.

    Raises:
        ConfigError: Settings do not fit the environment.
        StateError: The folder's state cannot be read, or is of another run.
        LeagueError: The league refuses, or a new run found none in time.
    """

    def __init__(
        self,
        config: TrainerConfig,
        folder: RunFolder,
        link: Link,
        *,
        version: str,
        terminal: Terminal,
        outside: Surroundings,
        ranks: Ranks = ALONE,
        own: TrainerConfig | None = None,
    ) -> None:
        self._config, self._folder, self._terminal, self._outside = config, folder, terminal, outside
        self._own, self._ranks = own or config, ranks
        self.disk = Disk(terminal.say)
        played = self._own.environment
        saved = self._load(declare(played.name))  # before anything is compiled for a run that is refused
        with terminal.waiting(f"opening {played.num_envs} x {played.name}", COMPILING):
            self._batches = open_batches(played, self._own.run)
        spec = self._batches[0].spec
        check_discount(self._batches[0], config.ppo.gamma)
        check_minibatches(self._own, spec)
        self.course = Course.of(self._batches, config.curriculum)
        self.learner = Learner(self._own, spec, ranks)
        self.scores = Scoreboard()
        self.monitor = Monitor(Setup.of(config.model_dump()))
        rules = RoleNumbers(**config.given_role_numbers)
        self._membership = Membership(link, config.league, spec, version, folder.instance(), rules)
        self._attach(attachment_of(saved))
        self.publisher = Publisher(folder.snapshots, spec)
        self.book = self._make_book(spec)
        self.spool = Spool(folder.spool)
        self.letters = Correspondence(
            self._membership, self.spool, self.publisher, disk=self.disk, terminal=terminal, outside=outside
        )
        self._turns = Turns(
            config,
            self.learner,
            self.publisher,
            self.letters,
            self._membership,
            disk=self.disk,
            terminal=terminal,
        )
        self.archive = self._make_archive(spec)
        if saved is None:
            self.publisher.resume(0, 0)
        else:
            self._resume(saved)
        folder.keep_settings(config)
        self.provenance = self._begin(spec)
        self.lead = self._lead(saved)
        self.collector = self._open_matches()

    def save(self) -> bool:
        """Write the state down, after every result that it counts; false while the disk refuses."""
        return self.archive.save(self.collector.pending, self.lead.states)

    def leave_snapshot(self, metrics: Mapping[str, float | None]) -> bool:
        """Leave a snapshot if the league says so, and begin anew if it does; whether there is something to save."""
        if not self._turns.follow(metrics):
            return False
        if self.learner.began_step == self.learner.steps:
            self.monitor = Monitor(Setup.of(self._config.model_dump()))
        return True

    def leave_last_snapshot(self) -> bool:
        """Leave a snapshot of what a run that is over has learned; false while the disk refuses."""
        return self._turns.finish()

    def hear(self) -> None:
        """Take in what the other ranks have played."""
        self.lead.hear(self._count, self._live)

    def teach(self) -> None:
        """Take up the lesson that is due."""
        if self.course is not None:
            self.course.advance(self.scores.episodes, self.collector.playing)

    def _load(self, spec: EnvironmentSpec) -> SavedState | None:
        """The state that the run goes on from, if there is one and it is this run's."""
        saved = state.load(self._folder.state)
        if saved is not None:
            check_origin(spec, self._config.league.learner, saved, self._folder)
            if changed := check_changes(self._folder, self._config):
                self._terminal.say(f"settings that changed: {', '.join(map(str, changed))}")
        return saved

    def _attach(self, known: Attachment | None) -> None:
        """Attach; a run that was attached before starts without the league, a new one waits for it."""
        if known is not None:
            self._membership.attachment = known
            self._membership.attach()
        else:
            self._membership.attach_first(self._outside)
            self._warn_of_another_run()

    def _warn_of_another_run(self) -> None:
        """Say that this run begins anew what another one has begun in the league."""
        if step := self._membership.learner_step:
            name = self._config.league.learner
            self._terminal.say(
                f"learner {name!r} has come to step {step:,} in this league, but {self._folder.path} has no saved "
                "state and begins at step 0: two runs under one name spoil its rating and its snapshots; stop and give "
                "another --learner, or go on with the other run by --run ITS_FOLDER --resume",
                "yellow",
            )

    def _make_book(self, spec: EnvironmentSpec) -> LeaseBook:
        league, played = self._config.league, self._own.environment
        self._live = NetworkPolicy(self.learner.network, spec.name, spec.signature)
        pool = OpponentPool(
            spec,
            self._membership.download,
            DiskCache(self._folder.opponents, league.disk_cache_bytes),
            memory_limit_bytes=league.memory_cache_bytes,
            device="cpu",  # who plays is copied to the device that acts
            modules=[self._config.network.module],
        )
        return LeaseBook(
            pool,
            Opponent(SELF, league.learner, self._live),
            request=partial(self._membership.lease, self_play=not played.self_play_rows),
            release=self._membership.release,
            now=self._outside.now,
            rows=played.num_envs,
            self_play=played.self_play_rows,
            seed=self._config.run.seed,
        )

    def _make_archive(self, spec: EnvironmentSpec) -> Archive:
        parts = Parts(self.learner, self.scores, self.course, self.publisher, self._membership, self.book, self.spool)
        return Archive(self._folder, spec, self._config.league.learner, parts, self.disk)

    def _resume(self, saved: SavedState) -> None:
        self.archive.restore(saved)
        for record in remembered(self._folder.path):
            if record.update <= self.learner.updates:
                self.monitor.take(record.update, record.metrics)
        self._terminal.say(f"resumed at step {self.learner.steps:,}")

    def _begin(self, spec: EnvironmentSpec) -> Provenance:
        facts = {"environment": spec.name, "signature": spec.signature, "learner": self._config.league.learner}
        provenance = Provenance(self._folder.path)
        provenance.begin({**facts, "seed": self._config.run.seed}, self._outside.now(), self.learner.steps)
        return provenance

    def _lead(self, saved: SavedState | None) -> Lead:
        """Let the other ranks begin where this one does."""
        lead = Lead(self._ranks, self.learner, self._membership, self_play=not self._own.environment.self_play_rows)
        states = [] if saved is None else saved.counters.get("ranks", [])
        taught_at = 0 if self.course is None else self.course.taught_at
        lead.begin(taught_at, states, self.spool.highest_sequences(), self.scores.episodes)
        return lead

    def _open_matches(self) -> Collector:
        return Collector(
            self._batches,
            self.learner.network,
            self.book,
            self._take_in,
            self.learner.rng,
            self_play=self._own.environment.self_play_rows,
            device_cache_bytes=self._config.league.device_cache_bytes,
            ranks=self._ranks,
        )

    def _take_in(self, episode: Episode) -> None:
        played = episode.assignment
        if self.course is not None and not self.course.whole(played):
            episode = replace(episode, assignment=replace(played, lease=None))
        self._count(episode)

    def _count(self, episode: Episode) -> None:
        self.scores.add(episode)
        self.letters.take_in(episode, self.learner.steps)
