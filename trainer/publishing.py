"""Snapshots on their way to the league: written down first, published later, in order."""

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
    """Keeps checkpoints in a folder until the league has them."""

    def __init__(self, folder: Path, spec: EnvironmentSpec, every_steps: int) -> None:
        self._folder, self._spec, self._every_steps = folder, spec, every_steps
        folder.mkdir(parents=True, exist_ok=True)
        self.last_step = 0

    def due(self, step: int) -> bool:
        """Whether the next snapshot is to be taken."""
        return step - self.last_step >= self._every_steps

    def take(self, network: ActorCritic, step: int) -> None:
        """Write the present weights down as a snapshot."""
        write_atomically(self._folder / f"{step:015d}{SUFFIX}", encode(network, self._spec))
        self.last_step = step

    def publish(self, send: Callable[[bytes, int], bool]) -> None:
        """Send waiting snapshots, oldest first; stop where the league is away.

        Args:
            send: Uploads a checkpoint and publishes it with its step; false while the league is away. Sending again
                is safe. Raises `LeagueError` where the league refuses the snapshot, which is then set aside.

        Raises:
            OSError: The disk refuses to forget what was published; the next call sends it again.
        """
        for file in sorted(self._folder.glob(f"*{SUFFIX}")):
            try:
                if not send(file.read_bytes(), int(file.stem)):
                    return
            except LeagueError as error:
                aside = file.rename(file.with_suffix(REFUSED))
                logger.warning("the snapshot of step %d is set aside as %s: %s", int(file.stem), aside, error)
            else:
                file.unlink()
