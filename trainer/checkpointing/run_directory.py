"""The run directory: the paths of a run's files, and the lock on them."""

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arena.atomic_files import remove_leftovers, write_atomically
from arena.policies.checkpoint import NEWEST
from trainer.config.loading import to_toml
from trainer.config.schema import TrainerConfig
from trainer.errors import RunInUseError

_IDENTITY_BYTES = 8


class RunDirectory:
    """Paths of one run.

    Attributes:
        path: The directory.
        settings: Resolved settings of the last session.
        state: Saved state that a restart resumes from.
        policy: The weights of the saved state as a checkpoint, for other programs.
        spool: Results that wait for delivery to the league.
        opponents: Downloaded checkpoints.
        snapshots: Checkpoints that wait for publication.
        identity: File with the id by which the league distinguishes this run's worker from others of the same name.
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
    def locked(self) -> Iterator[None]:
        """Lock the directory. If it is new and the block fails before writing anything, it is removed again.

        Raises:
            RunInUseError: Another process holds the lock.
        """
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as lock:
            try:
                # The operating system releases the lock with the process, even after SIGKILL.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RunInUseError(
                    f"run folder {self.path} is in use by another trainer: give this one another --learner or --run"
                ) from error
            try:
                for folder in (self.path, self.spool, self.opponents, self.snapshots):
                    remove_leftovers(folder)
                yield
            except BaseException:
                self._remove_unused(missing)
                raise

    def instance(self) -> str | None:
        """Return the id of this run; the first call creates it.

        None if the disk is full: the league then knows the worker by its name, until a later session has an id.
        """
        try:
            if not self.identity.exists():
                write_atomically(self.identity, secrets.token_hex(_IDENTITY_BYTES).encode())
            return self.identity.read_text(encoding="utf-8")
        except OSError:
            return None

    def _remove_unused(self, created: list[Path]) -> None:
        """Remove the folders that `locked` created, if they hold no file of a run."""
        names = {each.name for each in self.path.iterdir()}
        if created and names <= {"lock", self.identity.name}:
            for name in names:
                (self.path / name).unlink()
            for folder in created:
                if any(folder.iterdir()):
                    return
                folder.rmdir()

    def save_settings(self, config: TrainerConfig) -> None:
        """Write the resolved settings as a TOML file for `--config` and `--resume`."""
        write_atomically(self.settings, to_toml(config).encode())
