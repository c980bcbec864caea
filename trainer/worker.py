"""`trainer run`: collect, learn, report, publish and save until told to stop."""

import math
from dataclasses import asdict

from arena.environments import EnvironmentSpec, make
from arena.environments.protocol import Environment, ShapedEnvironment
from arena.policies import NetworkPolicy
from league.errors import LeagueUnreachable
from league.wire import Result
from trainer import state
from trainer.collector import Collector, Episode
from trainer.config import TrainerConfig
from trainer.errors import ConfigError, StateError
from trainer.folder import RunFolder
from trainer.health import HEALTH, Monitor, Verdict
from trainer.history import Setup
from trainer.learner import Learner
from trainer.leases import LeaseBook
from trainer.link import Link
from trainer.membership import Attachment, Membership
from trainer.metrics import Journal, Scoreboard, Terminal
from trainer.opponents import SELF, DiskCache, Opponent, OpponentPool
from trainer.publishing import Publisher
from trainer.records import remembered
from trainer.spool import Spool
from trainer.surroundings import Surroundings

ATTACH_PAUSE_S = 0.25


class TrainingWorker:
    """One learner's run in its folder, which must be taken.

    Calls to the league are made between rollouts, with a short timeout, and are skipped while it is away: the
    simplest way in which a league can never hold up training for long.

    Args:
        config: Settings.
        folder: Where the run is kept.
        link: The league.
        version: Of this program.
        terminal: Tells a person how it goes.
        outside: Time and signals.

    Raises:
        StateError: The folder's state cannot be read, or is of another environment.
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
    ) -> None:
        self._config, self._folder, self._link = config, folder, link
        self._terminal, self._outside = terminal, outside
        played, seed, device = config.environment, config.run.seed, config.run.device
        terminal.say(f"opening {played.num_envs} x {played.name}; kernels are compiled at the first use")
        self._env = make(played.name, num_envs=played.num_envs, device=device, seed=seed)
        _check_discount(self._env, config.ppo.gamma)
        spec = self._env.spec
        saved = state.load(folder.state)
        if saved is not None:
            _check_origin(spec, config.league.learner, saved, folder)
        self.learner = Learner(config, spec)
        self.scores = Scoreboard()
        self._monitor = Monitor(Setup.of(config.model_dump()))
        self._publisher = Publisher(folder.snapshots, spec, config.league.snapshot_every_steps)
        self._membership = Membership(link, config.league, spec, version)
        self._attach(saved)
        self._book = self._make_book(spec)
        self.spool = Spool(folder.spool)
        if saved is not None:
            self._resume(saved)
        folder.describe(config, spec.signature, outside.now())
        self._collector = Collector(
            self._env,
            self.learner.network,
            self._book,
            self._take_in,
            self.learner.rng,
            device_cache_bytes=config.league.device_cache_bytes,
        )
        self._beat_at = self._updated_at = outside.clock()
        self._dismissed = False

    def run(self) -> None:
        """Train until the run's end, a signal, or the league's word; leave everything saved and delivered.

        Raises:
            DivergedError: Losses or gradients were not finite too often in a row.
        """
        rollout = self.learner.allocate()
        journal = Journal(self._folder.path)
        played, steps = self._config.environment, self._config.rollout.steps
        self._terminal.say(f"first rollout: {played.num_envs} environments x {steps} decisions")
        metrics: dict[str, float | None] = {}
        try:
            while not self._finished():
                self._book.refill()
                began = self._outside.clock()
                if not self._collector.collect(rollout, self._outside.stopping):
                    break
                collected = self._outside.clock()
                metrics = self.learner.learn(rollout, self._outside.stopping)
                metrics |= self._speed(began, collected) | self.scores.metrics()
                self._after_update(journal, metrics)
        finally:
            self.save()
            journal.close()
        self._leave(metrics)

    def save(self) -> None:
        """Write the state down; every result that it counts is on the disk before it."""
        self.spool.sync()
        attachment = self._membership.attachment
        counters = {
            "signature": self._env.spec.signature,
            "learner": self._config.league.learner,
            "steps": self.learner.steps,
            "updates": self.learner.updates,
            "episodes": self.scores.episodes,
            "snapshot_step": self._publisher.last_step,
            "attachment": None if attachment is None else asdict(attachment),
            "leases": self._book.saved(self._collector.pending),
        }
        state.save(self._folder.state, self.learner.tensors(), counters)

    def _finished(self) -> bool:
        total = self._config.run.total_steps
        return self._dismissed or self._outside.stopping() or bool(total and self.learner.steps >= total)

    def _take_in(self, episode: Episode) -> None:
        self.scores.add(episode)
        if (lease := episode.assignment.lease) is not None:
            self.spool.append(
                Result(
                    lease_id=lease.lease_id,
                    sequence=episode.assignment.sequence,
                    score=episode.score,
                    decisions=episode.decisions,
                    reason=episode.reason,
                    seed=episode.assignment.seed,
                    learner_step=self.learner.steps,
                )
            )

    def _speed(self, began: float, collected: float) -> dict[str, float | None]:
        """Steps per second since the last update, calls to the league included, and where the time went."""
        ended = self._outside.clock()
        steps = self._config.rollout.steps * self._config.environment.num_envs
        speed = steps / max(ended - self._updated_at, 1e-9)
        self._updated_at = ended
        return {"charts/SPS": speed, "charts/rollout_s": collected - began, "charts/update_s": ended - collected}

    def _after_update(self, journal: Journal, metrics: dict[str, float | None]) -> None:
        step = self.learner.steps
        metrics["charts/updates"] = float(self.learner.updates)
        verdicts = self._monitor.take(self.learner.updates, metrics)
        metrics |= self._monitor.metrics()
        self.spool.sync()
        journal.write(step, metrics)
        self._terminal.progress(self.learner.updates, step, self._config.run.total_steps, metrics)
        self._tell(verdicts, journal)
        if self._publisher.due(step):
            self._publisher.take(self.learner.network, step)
        if self.learner.updates % self._config.run.save_every_updates == 0:
            self.save()
        self.spool.deliver(self._membership.report)
        self._publisher.publish(self._publish)
        if self._outside.clock() >= self._beat_at:
            self._beat(metrics)

    def _tell(self, verdicts: list[Verdict], journal: Journal) -> None:
        for verdict in verdicts:
            self._terminal.say(verdict.line)
            journal.note(self.learner.steps, f"{HEALTH}{verdict.name}", verdict.line)

    def _publish(self, checkpoint: bytes, step: int) -> bool:
        player = self._membership.publish(checkpoint, step)
        if player is not None:
            self._terminal.say(f"published snapshot {player.name} of step {step:,}")
        return player is not None

    def _beat(self, metrics: dict[str, float | None]) -> None:
        self._beat_at = self._outside.clock() + self._membership.heartbeat_s
        command = self._membership.beat(self.learner.steps, metrics)
        if command in ("drain", "stop"):
            self._terminal.say(f"the league says {command}")
            self._dismissed = True

    def _leave(self, metrics: dict[str, float | None]) -> None:
        """Deliver once more and say how far it went. A restart plays on under the leases; otherwise they expire.

        After a signal a league that is away is not tried again: whoever sent it waits for the end.
        """
        if not self._outside.stopping():
            self._link.retry_now()
        self.spool.deliver(self._membership.report)
        if metrics:
            self._membership.beat(self.learner.steps, metrics)
        waiting = self.spool.undelivered()
        self.spool.close()
        kept = f"; {waiting:,} bytes of results wait for the league" if waiting else ""
        self._terminal.say(f"saved at step {self.learner.steps:,} in {self._folder.path}{kept}")

    def _make_book(self, spec: EnvironmentSpec) -> LeaseBook:
        league = self._config.league
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
            request=self._membership.lease,
            release=self._membership.release,
            now=self._outside.now,
            rows=self._config.environment.num_envs,
            seed=self._config.run.seed,
        )

    def _attach(self, saved: state.SavedState | None) -> None:
        """Attach; a run that was attached before starts without the league, a new one waits for it."""
        if saved is not None and saved.counters["attachment"]:
            self._membership.attachment = Attachment(**saved.counters["attachment"])
            self._membership.attach()
            return
        deadline = self._outside.clock() + self._config.league.connect_s
        while not self._membership.attach():
            if self._outside.clock() >= deadline or self._outside.stopping():
                waited = f"none answered within {self._config.league.connect_s:g} s"
                way_out = "start one with `league serve`, or name another with --league"
                raise LeagueUnreachable("at the first start", waited, way_out)
            self._outside.pause(ATTACH_PAUSE_S)

    def _resume(self, saved: state.SavedState) -> None:
        counters = saved.counters
        self.learner.restore(saved.tensors, counters["steps"], counters["updates"])
        self.scores.episodes = counters["episodes"]
        self._publisher.last_step = counters["snapshot_step"]
        self._book.restore(counters["leases"], self.spool.highest_sequences())
        for record in remembered(self._folder.path):
            if record.update <= self.learner.updates:
                self._monitor.take(record.update, record.metrics)
        self._terminal.say(f"resumed at step {self.learner.steps:,}")


def _check_discount(env: Environment, gamma: float) -> None:
    """Refuse a discount that turns an environment's shaping into a reward of its own."""
    if isinstance(env, ShapedEnvironment) and not math.isclose(env.shaping_gamma, gamma):
        raise ConfigError(
            f"ppo.gamma is {gamma}, but {env.spec.name} shapes its rewards with {env.shaping_gamma}: "
            f"set ppo.gamma={env.shaping_gamma}"
        )


def _check_origin(spec: EnvironmentSpec, learner: str, saved: state.SavedState, folder: RunFolder) -> None:
    signature, name = saved.counters["signature"], saved.counters.get("learner", learner)
    if signature != spec.signature:
        raise StateError(
            f"run folder {folder.path} has the signature {signature}, but {spec.name} has {spec.signature}: "
            "choose another --run, or another --learner"
        )
    if name != learner:
        raise StateError(
            f"run folder {folder.path} is of learner {name!r}, not {learner!r}: "
            f"choose another --run, or --learner {name!r}"
        )
