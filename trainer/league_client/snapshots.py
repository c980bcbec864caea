"""Durable outbox of snapshots: written to disk first, published to the league later, in order.

A snapshot is published only after the run's state was saved at its step or later. If a crash sets the run back before
a snapshot, that snapshot is dropped: the run reaches its step again with other weights, and the league must not get two
snapshots of one step.
"""

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

from arena.atomic_files import write_atomically
from arena.environments import EnvironmentSpec
from arena.policies import ActorCritic
from arena.policies.checkpoint import encode
from league.errors import LeagueError
from trainer.opponents.checkpoint_cache import CheckpointCache

SUFFIX = ".safetensors"
REFUSED = ".refused"
"""Suffix of snapshots that the league rejected."""

logger = logging.getLogger(__name__)


class SnapshotOutbox:
    """Checkpoints in a folder that wait for publication.

    Args:
        folder: Folder of the outbox.
        spec: Environment of the snapshots.
        opponents: Opponent cache of a run without a league, which plays its own snapshots; None for a run with one.

    Attributes:
        last_step: Step of the newest snapshot; 0 before the first.
        saved_step: Step of the saved run state. No later snapshot is published.
    """

    def __init__(self, folder: Path, spec: EnvironmentSpec, opponents: CheckpointCache | None = None) -> None:
        self._folder, self._spec, self._opponents = folder, spec, opponents
        folder.mkdir(parents=True, exist_ok=True)
        self.last_step = self.saved_step = 0

    def add(self, network: ActorCritic, step: int, since_step: int | None) -> None:
        """Write a snapshot to the outbox.

        Args:
            network: Network with the weights.
            step: Step of the learner.
            since_step: Step in the request whose decision asked for the snapshot; None without a decision.
        """
        name = f"{step:015d}" if since_step is None else f"{step:015d}-{since_step:015d}"
        checkpoint = encode(network, self._spec)
        write_atomically(self._folder / f"{name}{SUFFIX}", checkpoint)
        if self._opponents is not None:
            self._opponents.put(hashlib.sha256(checkpoint).hexdigest(), checkpoint)
        self.last_step = step

    def resume(self, last_step: int, saved_step: int) -> None:
        """Restore the state of a saved run and drop later snapshots.

        Args:
            last_step: Step of the newest snapshot at that time.
            saved_step: Step of the saved run state.

        Raises:
            OSError: A later snapshot could not be removed.
        """
        self.last_step, self.saved_step = last_step, saved_step
        for file in self._waiting():
            step, _ = _steps_of(file)
            if step > saved_step:
                logger.warning("dropped the snapshot of step %d: the run resumes at step %d", step, saved_step)
                file.unlink()

    def publish(self, send: Callable[[bytes, int, int | None], bool]) -> None:
        """Publish the waiting snapshots up to `saved_step`, oldest first; stop if the league is unreachable.

        Args:
            send: Uploads and publishes a checkpoint with its step and the step of the decision; false while the league
                is unreachable. Repeating it is safe. If it raises `LeagueError`, the snapshot is set aside.

        Raises:
            OSError: A published snapshot could not be removed. The next call publishes it again.
        """
        for file in self._waiting():
            step, since_step = _steps_of(file)
            if step > self.saved_step:
                return
            try:
                if not send(file.read_bytes(), step, since_step):
                    return
            except LeagueError as error:
                aside = file.rename(file.with_suffix(REFUSED))
                logger.warning("the league rejected the snapshot of step %d, which is now %s: %s", step, aside, error)
            else:
                file.unlink()

    def count_waiting(self) -> int:
        """Count the snapshots that may be published and are not yet."""
        return sum(_steps_of(file)[0] <= self.saved_step for file in self._waiting())

    def _waiting(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{SUFFIX}"))


def _steps_of(file: Path) -> tuple[int, int | None]:
    """Return the step of a snapshot and of the decision that asked for it, if any, from the file name."""
    step, dash, since_step = file.stem.partition("-")
    return int(step), int(since_step) if dash else None
