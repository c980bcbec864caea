"""`trainer run`: the training loop. Lease opponents, collect a rollout, update the network, report and save."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext

from trainer.errors import RankLostError, UnsavedError
from trainer.monitoring.console import Goal
from trainer.monitoring.health.monitor import HEALTH
from trainer.monitoring.loggers import Tracker
from trainer.monitoring.metrics import MetricsLogger
from trainer.runtime.session import COMPILING, TrainingSession

Metrics = dict[str, float | None]


class Trainer:
    """Trains one learner.

    Calls to the league are made between rollouts, with a short timeout, and are skipped while it is unreachable, so
    that an outage of the league never stops training. Writes that fail because the disk is full are retried.

    Args:
        session: Objects of the run.
        loggers: Opens the metric loggers of this session, given the environment step at which it starts. They are
            closed at the end of the run.
    """

    def __init__(self, session: TrainingSession, loggers: Callable[[int], Sequence[Tracker]]) -> None:
        self.session, self._loggers = session, loggers
        self.learner, self.statistics, self.spool = session.learner, session.statistics, session.spool
        self._config, self._folder, self._console = session.config, session.folder, session.console
        self._run_context = session.run_context
        self._last_update_at = self._run_context.clock()

    def run(self) -> None:
        """Train until the run is complete, a signal comes, or the league stops this worker; then save and deliver.

        Raises:
            NonFiniteLossError: Losses or gradients were not finite in too many consecutive updates.
            RankLostError: Another rank is gone.
            UnsavedError: The disk is full, and a signal came before the last state could be written.
        """
        with closing(
            MetricsLogger(self._folder.path, self._loggers(self.learner.steps), self.session.disk)
        ) as metrics_logger:
            try:
                metrics = self._train(metrics_logger)
            except RankLostError:  # ranks may be at different steps: all of them resume from the last saved state
                raise
            except BaseException:
                self._write_all(metrics_logger)
                raise
            saved = self._write_all(metrics_logger) or self.session.disk.retry_until_written(
                lambda: self._write_all(metrics_logger), self._run_context
            )
        self._finish(metrics, saved=saved)

    def save(self) -> bool:
        """Save the state of the run after the results that it counts; return False if the disk is full."""
        return self.session.save()

    def _train(self, metrics_logger: MetricsLogger) -> Metrics:
        """Run the training loop; return the metrics of the last update."""
        session, learner, clock = self.session, self.learner, self._run_context.clock
        self._warn_if_complete()
        if not self._folder.state.exists():
            self.save()
        buffer = learner.allocate()
        metrics: Metrics = {}
        waiting: AbstractContextManager[None] = self._first_iteration_notice()
        session.receive_reports(learner.steps)
        stop = self._should_stop()
        session.send_command(stop=stop)
        while not stop:
            session.advance_curriculum()
            session.leases.refill()

            started, step = clock(), learner.steps
            with waiting:
                complete = session.collector.collect(buffer, self._should_stop)
                collected = clock()
                losses = learner.learn(buffer, self._run_context.stopping) if complete else {}
            waiting = nullcontext()

            session.receive_reports(step)
            if not complete:  # a signal cut the rollout short
                session.send_command(stop=True)
                break
            metrics = session.coordinator.merge_metrics(buffer, losses) | self._speed(started, collected)
            self._report(metrics, metrics_logger)
            stop = self._save_and_sync(metrics)
        return metrics

    def _report(self, metrics: Metrics, metrics_logger: MetricsLogger) -> None:
        """Complete the metrics of an update; write them to the results, the trackers and the console."""
        session, step, updates = self.session, self.learner.steps, self.learner.updates
        metrics |= self.statistics.metrics()
        metrics["charts/updates"] = float(updates)
        if session.curriculum is not None:
            metrics |= session.curriculum.metrics()
        changed = session.monitor.update(updates, metrics)
        metrics |= session.monitor.metrics()
        session.league_sync.alerts = session.monitor.alerts
        session.saver.save_results()
        metrics_logger.write(step, metrics)
        self._console.progress(updates, step, self._goal, metrics)
        for alert in changed:
            self._console.print(alert.line, alert.style)
            metrics_logger.log_text(step, f"{HEALTH}{alert.name}", alert.line)

    def _save_and_sync(self, metrics: Metrics) -> bool:
        """Take a snapshot and save if they are due, then exchange messages with the league; return whether to stop."""
        session, step = self.session, self.learner.steps
        due = (
            session.maybe_snapshot(metrics)
            or session.saver.retry_due
            or self.learner.updates % self._config.run.save_every_updates == 0
        )
        stop = self._should_stop()
        session.send_command(stop=stop, save=due, reset=self.learner.began_step == step)
        if due:
            self.save()
        if not self._run_context.stopping():
            session.league_sync.sync(step, metrics)
        # other ranks already have their command, so a later stop request ends the next rollout instead
        return stop if session.ranks.world_size > 1 else self._should_stop()

    def _should_stop(self) -> bool:
        stop_requested = self.session.league_sync.commands.stop_requested
        return stop_requested or self._run_context.stopping() or self._complete

    @property
    def _complete(self) -> bool:
        return 0 < self._config.run.total_timesteps <= self.learner.steps

    @property
    def _goal(self) -> Goal:
        total = self._config.run.total_timesteps
        return Goal(total or self._config.schedules.horizon_steps, ends=bool(total))

    def _warn_if_complete(self) -> None:
        if self._complete:
            self._console.print(
                f"run.total_timesteps is {self._config.run.total_timesteps:,}, which this run has reached: set a "
                f"larger value, such as --total-timesteps {2 * self.learner.steps}, or 0 to train without a limit",
                "yellow",
            )

    def _first_iteration_notice(self) -> AbstractContextManager[None]:
        """Print that the first iteration is under way; later ones are visible from their progress lines."""
        num_envs, num_steps = self._config.environment.num_envs, self._config.rollout.num_steps
        return self._console.waiting(f"first rollout: {num_envs} environments x {num_steps} decisions", COMPILING)

    def _speed(self, started: float, collected: float) -> Metrics:
        """Steps per second since the last update, and seconds per phase; `league_s` is all other time."""
        ended = self._run_context.clock()
        steps = self._config.rollout.num_steps * self._config.environment.num_envs
        elapsed, self._last_update_at = ended - self._last_update_at, ended
        return {
            "charts/SPS": steps / max(elapsed, 1e-9),
            "charts/rollout_s": collected - started,
            "charts/update_s": ended - collected,
            "charts/league_s": max(0.0, elapsed - (ended - started)),
        }

    def _write_all(self, metrics_logger: MetricsLogger) -> bool:
        self.session.provenance.end_session(self._run_context.now(), self.learner.steps)
        snapshot_written = not self._complete or self.session.write_last_snapshot()
        return all((snapshot_written, self.save(), metrics_logger.flush()))

    def _finish(self, metrics: Metrics, *, saved: bool) -> None:
        """Deliver waiting results and snapshots. Leases stay: a restart uses them, or they expire."""
        delivery = self.session.league_sync.close(self.learner.steps, metrics)
        if not saved:
            raise UnsavedError(
                f"run folder {self._folder.path} is not written ({self.session.disk.failures}), and training after "
                f"step {self.session.saver.step:,} is lost: free some space on the disk and start again"
            )
        delivered = "" if delivery is None else f"; {delivery}"
        self._console.print(f"saved at step {self.learner.steps:,} in {self._folder.path}{delivered}")
