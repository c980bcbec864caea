"""Snapshots on their way to the league: written down first, published later, in order."""

from collections.abc import Callable
from pathlib import Path

from arena.durable import write_atomically
from arena.environments import EnvironmentSpec
from arena.policies import ActorCritic
from arena.policies.checkpoint import encode

SUFFIX = ".safetensors"


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
                is safe.
        """
        for file in sorted(self._folder.glob(f"*{SUFFIX}")):
            if not send(file.read_bytes(), int(file.stem)):
                return
            file.unlink()
