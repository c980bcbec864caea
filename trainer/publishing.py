"""Snapshots on their way to the league: written down first, published later, in order.

A snapshot is published once a restart goes on from it or from later on. One that a crash undid is dropped: the run goes
on before it, other weights will come to its step, and the league would have two snapshots of one step.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from arena.durable import write_atomically
from arena.environments import EnvironmentSpec
from arena.policies import ActorCritic
from arena.policies.checkpoint import encode
from league.errors import LeagueError

SUFFIX = ".safetensors"
REFUSED = ".refused"
"""Suffix of what the league will not have."""

logger = logging.getLogger(__name__)


class Publisher:
    """Keeps checkpoints in a folder until the league has them.

    Attributes:
        last_step: Of the last snapshot that was taken; 0 before the first.
        saved_step: Where a restart goes on; no later snapshot is published.
    """

    def __init__(self, folder: Path, spec: EnvironmentSpec) -> None:
        self._folder, self._spec = folder, spec
        folder.mkdir(parents=True, exist_ok=True)
        self.last_step = self.saved_step = 0

    def take(self, network: ActorCritic, step: int, since_step: int | None) -> None:
        """Write weights down as a snapshot.

        Args:
            network: Has the weights.
            step: How far it has come.
            since_step: Of the league's decision that asked for it; None where nobody did.
        """
        name = f"{step:015d}" if since_step is None else f"{step:015d}-{since_step:015d}"
        write_atomically(self._folder / f"{name}{SUFFIX}", encode(network, self._spec))
        self.last_step = step

    def resume(self, last_step: int, saved_step: int) -> None:
        """Go on as a run was saved, without the snapshots that it took later.

        Args:
            last_step: Of the last snapshot that it had taken.
            saved_step: Where it goes on.

        Raises:
            OSError: The disk refuses to forget them.
        """
        self.last_step, self.saved_step = last_step, saved_step
        for file in self._waiting():
            step, _ = _steps_of(file)
            if step > saved_step:
                logger.warning("the snapshot of step %d is dropped: the run goes on at %d", step, saved_step)
                file.unlink()

    def publish(self, send: Callable[[bytes, int, int | None], bool]) -> None:
        """Send waiting snapshots that are saved, oldest first; stop where the league is away.

        Args:
            send: Uploads a checkpoint and publishes it with its step and that of the decision that asked for it; false
                while the league is away. Sending again is safe. Raises `LeagueError` where the league refuses the
                snapshot, which is then set aside.

        Raises:
            OSError: The disk refuses to forget what was published; the next call sends it again.
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
                logger.warning("the snapshot of step %d is set aside as %s: %s", step, aside, error)
            else:
                file.unlink()

    def _waiting(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{SUFFIX}"))


def _steps_of(file: Path) -> tuple[int, int | None]:
    """Step of a snapshot, and that of the decision that asked for it, if one did."""
    step, dash, since_step = file.stem.partition("-")
    return int(step), int(since_step) if dash else None
