"""Schedule of snapshots and weight resets, as the league decides.

From a fraction of the step limit on, the trainer asks the league whether a snapshot is due. A decision is carried out
between two rollouts: the snapshot is written, the weights are reset if it asks for that, and the next saved state
contains both. A run that is killed before that asks again and gets the same decision. While the league is unreachable,
a snapshot is taken at the limit and no weights are reset. A finished run leaves its last weights as a snapshot.
"""

import logging
from collections.abc import Mapping

from arena.errors import ArenaError, CheckpointError
from arena.policies import ActorCritic
from arena.policies.checkpoint import decode
from league.errors import LeagueError
from league.wire import SnapshotDecision
from trainer.algorithms import Algorithm
from trainer.config.schema import TrainerConfig
from trainer.disk_retry import DiskRetry
from trainer.league_client.session import LeagueSession
from trainer.league_client.snapshots import SnapshotOutbox
from trainer.league_client.sync import LeagueSync
from trainer.monitoring.console import RunConsole

logger = logging.getLogger(__name__)


class SnapshotScheduler:
    """Schedule of one learner's snapshots.

    Args:
        config: Settings, with the first step to ask the league at and the step limit.
        learner: The learner.
        outbox: Receives the snapshots.
        league_sync: Asks the league for decisions.
        session: Downloads the weights to reset to.
        disk: Retries writes on a full disk.
        console: Prints resets.
    """

    def __init__(
        self,
        config: TrainerConfig,
        learner: Algorithm,
        outbox: SnapshotOutbox,
        league_sync: LeagueSync,
        session: LeagueSession,
        *,
        disk: DiskRetry,
        console: RunConsole,
    ) -> None:
        self._learner, self._outbox, self._league_sync, self._session = learner, outbox, league_sync, session
        self._disk, self._console = disk, console
        numbers = config.role_numbers
        self._steps, self._limit = numbers["snapshot_steps"], numbers["snapshot_limit"]
        self._pending: SnapshotDecision | None = None

    def maybe_snapshot(self, metrics: Mapping[str, float | None]) -> bool:
        """Take a snapshot and reset the weights if that is due; return whether the run's state must be saved."""
        step, since_step = self._learner.steps, self._outbox.last_step
        if step - since_step < self._steps:
            return False
        limit_reached = step - since_step >= self._limit
        decision = self._pending or self._league_sync.request_snapshot_decision(
            step, since_step, metrics, now=limit_reached
        )
        if decision is None:
            return limit_reached and self._write_snapshot(step, None)
        completed = self._carry_out(decision, step)
        self._pending = None if completed else decision
        return completed

    def finish(self) -> bool:
        """Take a snapshot of the last weights of a finished run, unless there is one; false if the disk failed.

        No decision is requested and no weights are reset. A continued run counts its next steps from here.
        """
        step = self._learner.steps
        return step == self._outbox.last_step or self._write_snapshot(step, None)

    def _carry_out(self, decision: SnapshotDecision, step: int) -> bool:
        if not decision.reset:
            return self._write_snapshot(step, decision.since_step)
        start = None
        if decision.start is not None:
            try:
                data = self._session.download(decision.start)
                if data is None:  # unreachable
                    return False
                start = self._decode_compatible(data, decision.start)
            except (LeagueError, ArenaError) as error:
                logger.warning(
                    "resetting the learner to its initial weights instead of those of %s: %s", decision.start, error
                )
        if not self._write_snapshot(step, decision.since_step):
            return False
        self._learner.reset_weights(start)
        weights = "its initial weights" if start is None else f"those of {decision.start}"
        self._console.print(f"reset the learner to {weights} at step {step:,}: {decision.reason}")
        return True

    def _write_snapshot(self, step: int, since_step: int | None) -> bool:
        return self._disk.write("a snapshot", lambda: self._outbox.add(self._learner.published, step, since_step))

    def _decode_compatible(self, data: bytes, sha256: str) -> ActorCritic:
        """Decode a checkpoint of the learner's architecture.

        Raises:
            CheckpointError: The checkpoint is damaged or has another architecture.
        """
        named = self._learner.network.architecture.module
        network = decode(data, source=sha256, modules=[named.path] if named else []).network
        if network.architecture != self._learner.network.architecture:
            raise CheckpointError(
                f"{sha256} has another network than this run: use the same [network] section for both"
            )
        return network
