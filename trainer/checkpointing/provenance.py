"""Provenance of a run: the command, versions, revision and machine of each session, in `run.json` of its directory."""

import json
import logging
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from arena.atomic_files import write_atomically
from league.client.origin import origin
from trainer.disk_retry import DiskRetry

FILE = "run.json"

logger = logging.getLogger(__name__)


class _RunRecord(BaseModel):
    sessions: list[dict[str, Any]]


class Provenance:
    """The session records of one run directory, in a file that is replaced atomically.

    Args:
        folder: The run directory.
        disk: Retries writes while the disk is full.
    """

    def __init__(self, folder: Path, disk: DiskRetry) -> None:
        self._path, self._disk = folder / FILE, disk
        self._run: dict[str, Any] = {}
        self._sessions = _read_sessions(self._path)

    def begin_session(self, run: dict[str, Any], now: datetime, step: int) -> None:
        """Record the start of a session.

        Args:
            run: Facts that hold for the whole run.
            now: The time.
            step: Environment step at which the session starts.

        Raises:
            OSError: The file cannot be written.
        """
        self._run = run
        session = {"started_at": now.isoformat(), "ended_at": None, "from_step": step, "to_step": None, **origin()}
        self._sessions.append(session)
        self._write()

    def end_session(self, now: datetime, step: int) -> bool:
        """Record the end of the session and its last step; return False if the disk is full."""
        self._sessions[-1] |= {"ended_at": now.isoformat(), "to_step": step}
        return self._disk.write("the end of the session", self._write)

    def _write(self) -> None:
        whole = {**self._run, "sessions": self._sessions}
        write_atomically(self._path, json.dumps(whole, indent=2).encode())


def _read_sessions(path: Path) -> list[dict[str, Any]]:
    """Read the recorded sessions."""
    try:
        return _RunRecord.model_validate_json(path.read_bytes()).sessions
    except FileNotFoundError:
        return []
    except ValueError:
        logger.warning("%s is damaged: its earlier sessions are dropped", path)
        return []
