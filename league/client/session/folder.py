"""Folder of an attached worker, from which the next start resumes."""

import json
import secrets
import sys
from pathlib import Path
from typing import IO

from arena.atomic_files import write_atomically
from league.errors import ConfigurationError

SUFFIX = ".safetensors"
REFUSED = ".refused"
"""Suffix of snapshots that the league rejected."""


class SessionFolder:
    """Instance id, open leases and waiting snapshots of one worker. One process at a time may use it.

    Raises:
        ConfigurationError: Another process uses the folder, or the system is Windows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._snapshots = path / "snapshots"
        self._snapshots.mkdir(parents=True, exist_ok=True)
        self._lock = (path / "lock").open("ab")
        try:
            _lock(self._lock, path)
        except BaseException:
            self._lock.close()
            raise

    def close(self) -> None:
        """Let other processes use the folder."""
        self._lock.close()

    @property
    def spool(self) -> Path:
        """Folder of the result spool."""
        return self.path / "results"

    def instance(self) -> str:
        """Return the secret id by which the league recognises this worker after a restart."""
        file = self.path / "instance"
        if not file.exists():
            write_atomically(file, secrets.token_urlsafe(24).encode())
        return file.read_text(encoding="utf-8")

    def save_leases(self, lease_ids: list[str]) -> None:
        """Store the ids of the open leases. They are only a hint: a lease that is never released expires."""
        write_atomically(self.path / "leases.json", json.dumps(lease_ids).encode(), durably=False)

    def saved_leases(self) -> list[str]:
        """Return the leases that the last process left open."""
        try:
            return [str(each) for each in json.loads((self.path / "leases.json").read_bytes())]
        except (FileNotFoundError, ValueError, TypeError):
            return []

    def add_snapshot(self, checkpoint: bytes, step: int, since_step: int | None) -> None:
        """Store a snapshot durably until it is published."""
        name = f"{step:015d}" if since_step is None else f"{step:015d}-{since_step:015d}"
        write_atomically(self._snapshots / f"{name}{SUFFIX}", checkpoint)

    def waiting_snapshots(self) -> list[Path]:
        """Return the files of the waiting snapshots, earliest step first."""
        return sorted(self._snapshots.glob(f"*{SUFFIX}"))


def _lock(file: IO[bytes], path: Path) -> None:
    """Lock a file until this process closes it or ends."""
    try:
        import fcntl  # here, so that the other calls of the client also work on Windows
    except ImportError:
        rule = f"the lock and the durable files of a session need POSIX, and this system is {sys.platform}"
        remedy = "attach on Linux, on macOS or in WSL; `LeagueClient` works here for all other calls"
        raise ConfigurationError(path, rule, remedy) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        rule = "another process is attached with this folder"
        raise ConfigurationError(path, rule, "stop it, or attach with another `worker` name") from None


def steps_of(file: Path) -> tuple[int, int | None]:
    """Return a snapshot's step, and the step of the decision that asked for it, from its file name."""
    step, dash, since_step = file.stem.partition("-")
    return int(step), int(since_step) if dash else None
