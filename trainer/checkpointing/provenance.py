"""Provenance of a run: the command, versions, revision and machine of each session, in `run.json` of its directory."""

import json
import logging
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel

from arena.atomic_files import write_atomically
from trainer.disk_retry import DiskRetry

FILE = "run.json"
CPUINFO = Path("/proc/cpuinfo")

PACKAGES = ("echelon-league", "torch", "numpy", "safetensors", "warp-lang")

SECRETS = ("--token",)
"""Options whose values are masked in the recorded command."""

GIT_TIMEOUT_S = 10.0

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


def origin() -> dict[str, Any]:
    """Command, versions, revision and machine of this process."""
    return {
        "command": command_line(sys.argv),
        "python": platform.python_version(),
        "packages": {each.name: each.version for each in metadata.distributions() if each.name in PACKAGES},
        "git": revision(Path(__file__).parents[2]),
        "machine": machine(),
    }


def command_line(arguments: Sequence[str]) -> list[str]:
    """The command line, with the values of `SECRETS` masked."""
    masked: list[str] = []
    for argument in arguments:
        option, equals, _ = argument.partition("=")
        if masked and masked[-1] in SECRETS:
            masked.append("...")
        else:
            masked.append(f"{option}=..." if equals and option in SECRETS else argument)
    return masked


def revision(folder: Path) -> dict[str, Any] | None:
    """The current commit and whether tracked files differ from it; None outside a git checkout."""
    if not (folder / ".git").exists():
        return None
    describe = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(describe, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    commit, dirty, _ = found.stdout.strip().partition("-dirty")
    return {"revision": commit, "changed": bool(dirty)}


def machine() -> dict[str, Any]:
    """Operating system, processor and accelerators."""
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {"system": platform.platform(), "cpu": _processor(), "cores": os.cpu_count(), "gpus": gpus}


def _processor() -> str:
    cpuinfo = CPUINFO.read_text(encoding="utf-8") if CPUINFO.exists() else ""
    model = re.search(r"^model name\s*: (.+)$", cpuinfo, re.MULTILINE)
    return model[1] if model else platform.processor()


def _read_sessions(path: Path) -> list[dict[str, Any]]:
    """Read the recorded sessions."""
    try:
        return _RunRecord.model_validate_json(path.read_bytes()).sessions
    except FileNotFoundError:
        return []
    except ValueError:
        logger.warning("%s is damaged: its earlier sessions are dropped", path)
        return []
