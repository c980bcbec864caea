"""Processes that end with the one that started them, however it ends."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def start(command: Sequence[str], variables: Mapping[str, str], log: Path) -> "subprocess.Popen[bytes]":
    """Start a Python command whose life is tied to this process's, on Linux.

    It has a process group of its own: a terminal's Ctrl-C does not reach it. The group stays in this session, so that
    the kernel wakes members that were stopped when this process dies; a stopped process heeds no SIGTERM.

    Args:
        command: What follows the interpreter's name.
        variables: Its environment.
        log: Its output is added to this file.
    """
    dying = (sys.executable, "-m", "league.process.die_with_parent", str(os.getpid()), sys.executable)
    with log.open("ab") as output:
        return subprocess.Popen((*dying, *command), env=variables, stdout=output, stderr=output, process_group=0)
