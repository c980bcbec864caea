"""The run folder: where everything of one run lies, and who may use it."""

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arena.durable import sweep, write_atomically
from arena.policies.checkpoint import NEWEST
from trainer.config import to_toml
from trainer.errors import RunInUseError
from trainer.settings import TrainerConfig

_IDENTITY_BYTES = 8


class RunFolder:
    """Paths of a run.

    Attributes:
        path: The folder.
        settings: The resolved settings of the last session.
        state: What a restart continues from.
        policy: The weights in it as a checkpoint, for everybody else.
        spool: Results on their way to the league.
        opponents: Downloaded checkpoints.
        snapshots: Checkpoints that are still to be published.
        identity: By what the league tells the worker of this run from others of its name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "config.toml"
        self.state = path / "state.safetensors"
        self.policy = path / NEWEST
        self.spool = path / "spool"
        self.opponents = path / "opponents"
        self.snapshots = path / "snapshots"
        self.identity = path / "instance"

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Keep other processes out of the folder. Where nothing comes of it but an error, none is left behind.

        Raises:
            RunInUseError: Another process works in it.
        """
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RunInUseError(
                    f"run folder {self.path} is in use by another trainer: give this one another --learner or --run"
                ) from error
            try:
                for folder in (self.path, self.spool, self.opponents, self.snapshots):
                    sweep(folder)
                yield
            except BaseException:
                self._remove_unused(missing)
                raise

    def instance(self) -> str | None:
        """Return the identity of this run, the same as long as the folder exists; it is made at the first call.

        None while the disk refuses it: the league then knows the worker by its name, and by its identity later on.
        """
        try:
            if not self.identity.exists():
                write_atomically(self.identity, secrets.token_hex(_IDENTITY_BYTES).encode())
            return self.identity.read_text(encoding="utf-8")
        except OSError:
            return None

    def _remove_unused(self, made: list[Path]) -> None:
        """Remove the folder and those above that were made with it, if there is nothing of a run in them."""
        kept = {each.name for each in self.path.iterdir()}
        if made and kept <= {"lock", self.identity.name}:
            for name in kept:
                (self.path / name).unlink()
            for folder in made:
                if any(folder.iterdir()):
                    return
                folder.rmdir()

    def keep_settings(self, config: TrainerConfig) -> None:
        """Write down the resolved settings, as a file that `--config` and `--resume` read."""
        write_atomically(self.settings, to_toml(config).encode())
