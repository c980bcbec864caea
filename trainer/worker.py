"""`trainer run`: collect, learn, report, publish and save until told to stop."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial

from arena.environments import EnvironmentSpec
from arena.policies import NetworkPolicy
from trainer import state
from trainer.archive import Archive, Parts, attachment_of
from trainer.batches import open_batches
from trainer.checks import check_discount, check_minibatches
from trainer.collector import Collector, Episode
from trainer.correspondence import Correspondence
from trainer.disk import Disk
from trainer.errors import UnsavedError
from trainer.folder import RunFolder
from trainer.health import HEALTH, Monitor, Verdict
from trainer.history import Setup
from trainer.learner import Learner
from trainer.leases import LeaseBook
from trainer.lessons import Course
from trainer.link import Link
from trainer.membership import Attachment, Membership
from trainer.metrics import Journal, Scoreboard
from trainer.opponents import SELF, DiskCache, Opponent, OpponentPool
from trainer.provenance import Provenance
from trainer.publishing import Publisher
from trainer.records import remembered
from trainer.resuming import check_changes, check_origin
from trainer.rollout import Rollout
from trainer.settings import TrainerConfig
from trainer.spool import Spool
from trainer.state import SavedState
from trainer.surroundings import Surroundings
from trainer.terminal import Goal, Terminal
from trainer.tracking import Tracker

COMPILING = "kernels are compiled at the first use"


class TrainingWorker:
    """One learner's run in its folder, which must be taken.

    Calls to the league are made between rollouts, with a short timeout, and are skipped while it is away: the
    simplest way in which a league can never hold up training for long. What the disk refuses is kept and tried again.

    Args:
        config: Settings.
        folder: Where the run is kept.
        link: The league.
        trackers: Opens those that take in metrics beside the run folder; they are closed when the run ends.
        version: Of this program.
        terminal: Tells a person how it goes.
        outside: Time and signals.

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
        trackers: Callable[[], Sequence[Tracker]],
        version: str,
        terminal: Terminal,
        outside: Surroundings,
    ) -> None:
        self._config, self._folder, self._link, self._trackers = config, folder, link, trackers
        self._terminal, self._outside, self._disk = terminal, outside, Disk(terminal.say)
        played, seed = config.environment, config.run.seed
        with terminal.waiting(f"opening {played.num_envs} x {played.name}", COMPILING):
            self._batches = open_batches(played, config.run)
        spec = self._batches[0].spec
        check_discount(self._batches[0], config.ppo.gamma)
        check_minibatches(config, spec)
        self._course = Course.of(self._batches, config.curriculum)
        saved = self._load(spec)
        self.learner = Learner(config, spec)
        self.scores = Scoreboard()
        self._monitor = Monitor(Setup.of(config.model_dump()))
        self._membership = Membership(link, config.league, spec, version)
        self._attach(attachment_of(saved))
        self._publisher = Publisher(folder.snapshots, spec, config.league.snapshot_every_steps)
        self._book = self._make_book(spec)
        self.spool = Spool(folder.spool)
        self._letters = Correspondence(
            self._membership, self.spool, self._publisher, disk=self._disk, terminal=terminal, outside=outside
        )
        self._archive = self._make_archive(spec)
        if saved is not None:
            self._resume(saved)
        folder.keep_settings(config)
        self._provenance = Provenance(folder.path)
        facts = {"environment": spec.name, "signature": spec.signature, "learner": config.league.learner}
        self._provenance.begin({**facts, "seed": seed}, outside.now(), self.learner.steps)
        self._collector = self._open_matches()
        self._updated_at = outside.clock()
        self._first = True

    def run(self) -> None:
        """Train until the run's end, a signal, or the league's word; leave everything saved and delivered.

        Raises:
            DivergedError: Losses or gradients were not finite too often in a row.
            UnsavedError: The disk refuses what was learned, and a signal came while it was waited for.
        """
        journal = Journal(self._folder.path, self._trackers())
        with ExitStack() as leaving:
            leaving.callback(self._disk.write, "metrics", journal.close)
            try:
                metrics = self._train(journal)
            finally:
                saved = self._write_all(journal)
            saved = saved or self._disk.insist(lambda: self._write_all(journal), self._outside)
        self._leave(metrics, saved=saved)

    def save(self) -> bool:
        """Write the state down, after every result that it counts; false while the disk refuses."""
        return self._archive.save(self._collector.pending)

    def _train(self, journal: Journal) -> dict[str, float | None]:
        """Learn until it is over; the last update's metrics."""
        if self._complete:
            self._terminal.say(
                f"run.total_steps is {self._config.run.total_steps:,}, which this run has reached: give more, such as "
                f"--total-steps {2 * self.learner.steps}, or 0 to go on without an end",
                "yellow",
            )
        rollout = self.learner.allocate()
        metrics: dict[str, float | None] = {}
        while not self._finished():
            if self._course is not None:
                self._course.advance(self.scores.episodes, self._collector.playing)
            self._book.refill()
            with self._patience():
                learned = self._iterate(rollout)
            if learned is None:
                break
            metrics = learned
            self._after_update(journal, metrics)
        return metrics

    def _iterate(self, rollout: Rollout) -> dict[str, float | None] | None:
        """Collect and learn once; None where a signal came before there was anything to learn from."""
        began = self._outside.clock()
        if not self._collector.collect(rollout, self._outside.stopping):
            return None
        collected = self._outside.clock()
        metrics = self.learner.learn(rollout, self._outside.stopping)
        return metrics | self._speed(began, collected) | self.scores.metrics()

    def _patience(self) -> AbstractContextManager[None]:
        """Signs of life during the session's first iteration; the others have a line of their own."""
        if not self._first:
            return nullcontext()
        self._first = False
        played, steps = self._config.environment, self._config.rollout.steps
        return self._terminal.waiting(f"first rollout: {played.num_envs} environments x {steps} decisions", COMPILING)

    def _write_all(self, journal: Journal) -> bool:
        ended = self._outside.now(), self.learner.steps
        self._disk.write("the end of the session", lambda: self._provenance.end(*ended))
        return all((self.save(), self._disk.write("metrics", journal.flush)))

    def _finished(self) -> bool:
        return self._letters.dismissed or self._outside.stopping() or self._complete

    @property
    def _complete(self) -> bool:
        return 0 < self._config.run.total_steps <= self.learner.steps

    def _take_in(self, episode: Episode) -> None:
        played = episode.assignment
        if self._course is not None and not self._course.whole(played):
            episode = replace(episode, assignment=replace(played, lease=None))
        self.scores.add(episode)
        self._letters.take_in(episode, self.learner.steps)

    def _speed(self, began: float, collected: float) -> dict[str, float | None]:
        """Steps per second since the last update, and where the time went: what is left over is the league's."""
        ended = self._outside.clock()
        steps = self._config.rollout.steps * self._config.environment.num_envs
        spent, self._updated_at = ended - self._updated_at, ended
        return {
            "charts/SPS": steps / max(spent, 1e-9),
            "charts/rollout_s": collected - began,
            "charts/update_s": ended - collected,
            "charts/league_s": max(0.0, spent - (ended - began)),
        }

    def _after_update(self, journal: Journal, metrics: dict[str, float | None]) -> None:
        step, updates = self.learner.steps, self.learner.updates
        metrics["charts/updates"] = float(updates)
        if self._course is not None:
            metrics |= self._course.metrics()
        verdicts = self._monitor.take(updates, metrics)
        metrics |= self._monitor.metrics()
        self._disk.write("results", self.spool.sync)
        self._disk.write("metrics", lambda: journal.write(step, metrics))
        self._terminal.progress(updates, step, self._goal, metrics)
        self._tell(verdicts, journal)
        if self._publisher.due(step):
            self._disk.write("a snapshot", lambda: self._publisher.take(self.learner.network, step))
        if self._archive.behind or updates % self._config.run.save_every_updates == 0:
            self.save()
        if not self._outside.stopping():
            self._letters.exchange(step, metrics)

    @property
    def _goal(self) -> Goal:
        total = self._config.run.total_steps
        return Goal(total or self._config.schedules.horizon_steps, ends=bool(total))

    def _tell(self, verdicts: list[Verdict], journal: Journal) -> None:
        for verdict in verdicts:
            self._terminal.say(verdict.line, verdict.style)
            journal.note(self.learner.steps, f"{HEALTH}{verdict.name}", verdict.line)

    def _leave(self, metrics: dict[str, float | None], *, saved: bool) -> None:
        """Deliver once more and say how far it went. A restart plays on under the leases; otherwise they expire.

        After a signal a league that is away is not tried again: whoever sent it waits for the end.
        """
        if not self._outside.stopping():
            self._link.retry_now()
        waiting = self._letters.part(self.learner.steps, metrics)
        if not saved:
            raise UnsavedError(
                f"run folder {self._folder.path} is not written ({self._disk.refused}), and what was learned after "
                f"step {self._archive.step:,} is lost: make room and start again"
            )
        kept = f"; {waiting:,} bytes of results wait for the league" if waiting else ""
        self._terminal.say(f"saved at step {self.learner.steps:,} in {self._folder.path}{kept}")

    def _make_book(self, spec: EnvironmentSpec) -> LeaseBook:
        league, self_play = self._config.league, self._config.environment.self_play_rows
        pool = OpponentPool(
            spec,
            self._membership.download,
            DiskCache(self._folder.opponents, league.disk_cache_bytes),
            memory_limit_bytes=league.memory_cache_bytes,
            device="cpu",  # who plays is copied to the device that acts
        )
        return LeaseBook(
            pool,
            Opponent(SELF, league.learner, NetworkPolicy(self.learner.network, spec.name, spec.signature)),
            request=partial(self._membership.lease, self_play=not self_play),
            release=self._membership.release,
            now=self._outside.now,
            rows=self._config.environment.num_envs,
            self_play=self_play,
            seed=self._config.run.seed,
        )

    def _open_matches(self) -> Collector:
        return Collector(
            self._batches,
            self.learner.network,
            self._book,
            self._take_in,
            self.learner.rng,
            self_play=self._config.environment.self_play_rows,
            device_cache_bytes=self._config.league.device_cache_bytes,
        )

    def _make_archive(self, spec: EnvironmentSpec) -> Archive:
        parts = Parts(
            self.learner, self.scores, self._course, self._publisher, self._membership, self._book, self.spool
        )
        return Archive(self._folder, spec, self._config.league.learner, parts, self._disk)

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

    def _load(self, spec: EnvironmentSpec) -> SavedState | None:
        """The state that the run goes on from, if there is one and it is this run's."""
        saved = state.load(self._folder.state)
        if saved is not None:
            check_origin(spec, self._config.league.learner, saved, self._folder)
            if changed := check_changes(self._folder, self._config):
                self._terminal.say(f"settings that changed: {', '.join(map(str, changed))}")
        return saved

    def _resume(self, saved: SavedState) -> None:
        self._archive.restore(saved)
        for record in remembered(self._folder.path):
            if record.update <= self.learner.updates:
                self._monitor.take(record.update, record.metrics)
        self._terminal.say(f"resumed at step {self.learner.steps:,}")
