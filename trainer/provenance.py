"""How a run was made: what each of its sessions ran, on what, and how far it came. Kept in its folder as `run.json`."""

import json
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from arena.durable import write_atomically

FILE = "run.json"

PACKAGES = ("echelon-league", "torch", "numpy", "safetensors", "warp-lang")

SECRETS = ("--token",)
"""Options whose values are not written down."""

GIT_WAIT_S = 10.0

logger = logging.getLogger(__name__)


class Provenance:
    """The sessions of one run folder: a list that grows, replaced atomically."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._facts: dict[str, Any] = {}
        self._sessions = _read_sessions(self._path)

    def begin(self, facts: dict[str, Any], now: datetime, step: int) -> None:
        """Write down that a session begins.

        Args:
            facts: What is the same for the whole run.
            now: The time.
            step: Environment steps that it goes on from.
        """
        self._facts = facts
        session = {"started_at": now.isoformat(), "ended_at": None, "from_step": step, "to_step": None, **origin()}
        self._sessions.append(session)
        self._write()

    def end(self, now: datetime, step: int) -> None:
        """Write down that the session is over, and how far it came."""
        self._sessions[-1] |= {"ended_at": now.isoformat(), "to_step": step}
        self._write()

    def _write(self) -> None:
        whole = {**self._facts, "sessions": self._sessions}
        write_atomically(self._path, json.dumps(whole, indent=2).encode())


def origin() -> dict[str, Any]:
    """What runs here: the command, versions, revision and machine."""
    return {
        "command": command_line(sys.argv),
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in PACKAGES},
        "git": revision(Path(__file__).parents[1]),
        "machine": machine(),
    }


def command_line(arguments: Sequence[str]) -> list[str]:
    """The command as it was given, without secrets."""
    told: list[str] = []
    for argument in arguments:
        option, equals, _ = argument.partition("=")
        if told and told[-1] in SECRETS:
            told.append("...")
        else:
            told.append(f"{option}=..." if equals and option in SECRETS else argument)
    return told


def revision(folder: Path) -> dict[str, Any] | None:
    """The commit that a checkout is at, and whether tracked files differ from it; None outside of one."""
    if not (folder / ".git").exists():
        return None
    commit, changes = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain", "--untracked-files=no")
    return None if commit is None or changes is None else {"revision": commit, "changed": bool(changes)}


def machine() -> dict[str, Any]:
    """Processor and accelerators."""
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {"system": platform.platform(), "cpu": _processor(), "cores": os.cpu_count(), "gpus": gpus}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        command = ["git", "-C", str(folder), *arguments]
        told = subprocess.run(command, capture_output=True, text=True, timeout=GIT_WAIT_S, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def _read_sessions(path: Path) -> list[dict[str, Any]]:
    """Sessions so far; a file of before there were any is one of them."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError:
        whole = None
    sessions = whole.get("sessions", [whole]) if isinstance(whole, dict) else None
    if isinstance(sessions, list) and all(isinstance(each, dict) for each in sessions):
        return sessions
    logger.warning("%s is damaged: the sessions in it are forgotten", path)
    return []
