"""`trainer run`: collect, learn, report, publish and save until told to stop."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext

from trainer.distributed import ALONE, Ranks
from trainer.errors import RankLostError, UnsavedError
from trainer.folder import RunFolder
from trainer.health import HEALTH, Verdict
from trainer.link import Link
from trainer.metrics import Journal
from trainer.rollout import Rollout
from trainer.session import COMPILING, Session
from trainer.settings import TrainerConfig
from trainer.surroundings import Surroundings
from trainer.terminal import Goal, Terminal
from trainer.tracking import Tracker


class TrainingWorker:
    """One learner's run in its folder, which must be taken.

    Calls to the league are made between rollouts, with a short timeout, and are skipped while it is away: the
    simplest way in which a league can never hold up training for long. What the disk refuses is kept and tried again.

    Args:
        config: Settings.
        folder: Where the run is kept.
        link: The league.
        trackers: Opens those that take in metrics beside the run folder, from a step on; they are closed when the run
            ends.
        version: Of this program.
        terminal: Tells a person how it goes.
        outside: Time and signals.
        ranks: With whom it learns, as rank 0, which alone speaks to the league and keeps the run folder.
        own: This rank's share of the settings; all of them where it is alone.

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
        trackers: Callable[[int], Sequence[Tracker]],
        version: str,
        terminal: Terminal,
        outside: Surroundings,
        ranks: Ranks = ALONE,
        own: TrainerConfig | None = None,
    ) -> None:
        self._config, self._folder, self._link, self._trackers = config, folder, link, trackers
        self._terminal, self._outside = terminal, outside
        self.session = Session(
            config, folder, link, version=version, terminal=terminal, outside=outside, ranks=ranks, own=own
        )
        self.learner, self.scores, self.spool = self.session.learner, self.session.scores, self.session.spool
        self._disk = self.session.disk
        self._updated_at = outside.clock()
        self._first = True

    def run(self) -> None:
        """Train until the run's end, a signal, or the league's word; leave everything saved and delivered.

        Raises:
            DivergedError: Losses or gradients were not finite too often in a row.
            RankLostError: Another rank is gone.
            UnsavedError: The disk refuses what was learned, and a signal came while it was waited for.
        """
        journal = Journal(self._folder.path, self._trackers(self.learner.steps))
        with ExitStack() as leaving:
            leaving.callback(self._disk.write, "metrics", journal.close)
            try:
                metrics = self._train(journal)
            except RankLostError:  # in the middle of anything: what was saved last is what all ranks go on from
                raise
            except BaseException:
                self._write_all(journal)
                raise
            saved = self._write_all(journal) or self._disk.insist(lambda: self._write_all(journal), self._outside)
        self._leave(metrics, saved=saved)

    def save(self) -> bool:
        """Write the state down, after every result that it counts; false while the disk refuses."""
        return self.session.save()

    def _train(self, journal: Journal) -> dict[str, float | None]:
        """Learn until it is over; the last update's metrics."""
        if self._complete:
            self._terminal.say(
                f"run.total_steps is {self._config.run.total_steps:,}, which this run has reached: give more, such as "
                f"--total-steps {2 * self.learner.steps}, or 0 to go on without an end",
                "yellow",
            )
        if not self._folder.state.exists():
            self.save()
        rollout = self.learner.allocate()
        metrics: dict[str, float | None] = {}
        while not self.session.lead.deal(self.scores.episodes, over=self._finished()):
            self.session.teach()
            self.session.book.refill()
            with self._patience():
                learned = self._iterate(rollout)
            if learned is None:
                break
            metrics = learned
            self._after_update(journal, metrics)
        self.session.lead.gather()
        return metrics

    def _iterate(self, rollout: Rollout) -> dict[str, float | None] | None:
        """Collect and learn once; None where a signal came before there was anything to learn from."""
        began = self._outside.clock()
        filled = self.session.collector.collect(rollout, self._outside.stopping)
        self.session.hear()
        if not filled:
            return None
        collected = self._outside.clock()
        metrics = self.learner.learn(rollout, self._outside.stopping)
        metrics = self.session.lead.pool(rollout, metrics)
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
        self._disk.write("the end of the session", lambda: self.session.provenance.end(*ended))
        left = not self._complete or self.session.leave_last_snapshot()
        return all((left, self.save(), self._disk.write("metrics", journal.flush)))

    def _finished(self) -> bool:
        return self.session.letters.orders.dismissed or self._outside.stopping() or self._complete

    @property
    def _complete(self) -> bool:
        return 0 < self._config.run.total_steps <= self.learner.steps

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
        if self.session.course is not None:
            metrics |= self.session.course.metrics()
        verdicts = self.session.monitor.take(updates, metrics)
        metrics |= self.session.monitor.metrics()
        self.session.letters.verdicts = self.session.monitor.verdicts
        self._disk.write("results", self.spool.sync)
        self._disk.write("metrics", lambda: journal.write(step, metrics))
        self._terminal.progress(updates, step, self._goal, metrics)
        self._tell(verdicts, journal)
        due = (
            self.session.leave_snapshot(metrics)
            or self.session.archive.behind
            or updates % self._config.run.save_every_updates == 0
        )
        self.session.lead.decide(save=due, anew=self.learner.began_step == step)
        if due:
            self.save()
        if not self._outside.stopping():
            self.session.letters.exchange(step, metrics)

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
        waiting = self.session.letters.part(self.learner.steps, metrics)
        if not saved:
            raise UnsavedError(
                f"run folder {self._folder.path} is not written ({self._disk.refused}), and what was learned after "
                f"step {self.session.archive.step:,} is lost: make room and start again"
            )
        kept = f"; {waiting:,} bytes of results wait for the league" if waiting else ""
        self._terminal.say(f"saved at step {self.learner.steps:,} in {self._folder.path}{kept}")
