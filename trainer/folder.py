"""The run folder: where everything of one run lies, and who may use it."""

import fcntl
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib import metadata
from pathlib import Path

from arena.durable import write_atomically
from trainer.config import TrainerConfig, to_toml
from trainer.errors import RunInUseError

PACKAGES = ("echelon-league", "torch", "numpy")


class RunFolder:
    """Paths of a run.

    Attributes:
        path: The folder.
        state: What a restart continues from.
        spool: Results on their way to the league.
        opponents: Downloaded checkpoints.
        snapshots: Checkpoints that are still to be published.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = path / "state.safetensors"
        self.spool = path / "spool"
        self.opponents = path / "opponents"
        self.snapshots = path / "snapshots"

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Keep other processes out of the folder.

        Raises:
            RunInUseError: Another process works in it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RunInUseError(
                    f"run folder {self.path} is in use by another trainer: give this one another --learner or --run"
                ) from error
            yield

    def describe(self, config: TrainerConfig, signature: str, started_at: datetime) -> None:
        """Write down how the run was made: settings and versions."""
        write_atomically(self.path / "config.toml", to_toml(config).encode())
        origin = {
            "started_at": started_at.isoformat(),
            "environment": config.environment.name,
            "signature": signature,
            "seed": config.run.seed,
            "python": platform.python_version(),
            **{package: metadata.version(package) for package in PACKAGES},
        }
        write_atomically(self.path / "run.json", json.dumps(origin, indent=2).encode())
