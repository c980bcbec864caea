"""Origin of a process: its command, packages, git revision and machine, for records of runs."""

import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

CPUINFO = Path("/proc/cpuinfo")

PACKAGES = ("echelon-league", "torch", "numpy", "safetensors", "warp-lang")

SECRETS = ("--token",)
"""Options whose values are masked in the recorded command."""

GIT_TIMEOUT_S = 10.0


def origin() -> dict[str, Any]:
    """Return the command, packages, revision of the working folder, and machine of this process."""
    return {
        "command": mask_secrets(sys.argv),
        "python": platform.python_version(),
        "packages": _versions(),
        "git": revision(Path.cwd()),
        "machine": machine(),
    }


def _versions() -> dict[str, str]:
    """Return the versions of the installed packages among `PACKAGES`."""
    versions = {}
    for name in sorted(PACKAGES):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def mask_secrets(arguments: Sequence[str]) -> list[str]:
    """Return a command line with the values of `SECRETS` masked."""
    masked: list[str] = []
    for argument in arguments:
        option, equals, _ = argument.partition("=")
        if masked and masked[-1] in SECRETS:
            masked.append("...")
        else:
            masked.append(f"{option}=..." if equals and option in SECRETS else argument)
    return masked


def revision(folder: Path) -> dict[str, Any] | None:
    """Return the commit of a folder's git checkout and whether tracked files differ from it; None outside of one."""
    describe = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(describe, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    commit, dirty, _ = found.stdout.strip().partition("-dirty")
    return {"revision": commit, "changed": bool(dirty)}


def machine() -> dict[str, Any]:
    """Return the host, operating system, processor and accelerators. GPUs are known only if torch is loaded."""
    torch = sys.modules.get("torch")
    gpus = [] if torch is None else [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "gpus": gpus,
    }


def _processor() -> str:
    cpuinfo = CPUINFO.read_text(encoding="utf-8") if CPUINFO.exists() else ""
    model = re.search(r"^model name\s*: (.+)$", cpuinfo, re.MULTILINE)
    return model[1] if model else platform.processor()
