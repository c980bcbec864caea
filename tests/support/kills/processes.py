"""Commands that are killed and started again: forks of one process that has loaded the libraries, so that they start
in a fraction of a second where a fresh interpreter would compute for some."""

import ctypes
import importlib
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from league.process.die_with_parent import die_with_parent

_PRELOADED = [
    "anyio.streams.memory",
    "arena.environments",
    "arena.policies",
    "h11",
    "httpcore2",
    "league.app",
    "league.cli",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "tensorboard.summary.writer.event_file_writer",
    "torch._dynamo",
    "trainer.cli.commands",
    "trainer.evaluation.evaluator",
    "trainer.runtime.train",
    "truststore",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
]
"""Modules that the fork server imports before it forks a command. None of them starts a thread."""

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(_PRELOADED)
_PAUSE_MAX_S = 0.5
_NETWORK = 0x40000000  # CLONE_NEWNET, see setns(2)


class Command:
    """A command with a log, and its process, where there is one.

    Args:
        kind: What it is, for the count of kills.
        arguments: `league`, `trainer` or `arena`, and what follows.
        variables: LEAGUE_* that it sees; it sees no others.
        log: Its output is added to this file.
        namespace: Of the network that it sees, as `ip netns` names it; None for that of this process.

    Attributes:
        by_itself: The last line and the status of each process that ended although nobody killed it.
    """

    def __init__(
        self,
        kind: str,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        log: Path,
        namespace: str | None = None,
    ) -> None:
        self.kind, self.log, self._namespace = kind, log, namespace
        self._arguments, self._variables = list(arguments), dict(variables)
        self._process: multiprocessing.process.BaseProcess | None = None
        self._begins_at = 0
        self._due = 0.0
        self.by_itself: list[str] = []

    def start(self) -> None:
        """Start it."""
        self.log.touch()
        self._begins_at = self.log.stat().st_size
        given = self._arguments, self._variables, str(self.log), self._namespace
        self._process = _FORKS.Process(target=_become, args=given)
        self._process.start()

    @property
    def run_folder(self) -> Path:
        """Where it keeps what it has not sent yet, if it is a worker."""
        return self.log.with_suffix("")

    @property
    def pid(self) -> int | None:
        """Of its process; None where there is none."""
        return self._process.pid if self._process is not None and self._process.is_alive() else None

    def said(self) -> str:
        """What its present process, or the last one, has printed."""
        with self.log.open("rb") as stream:
            stream.seek(self._begins_at)
            return stream.read().decode(errors="replace")

    def kill(self, rng: random.Random) -> None:
        """Kill its process; `revive` starts another after a moment."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
            self._due = time.monotonic() + rng.uniform(0.0, _PAUSE_MAX_S)

    def revive(self) -> None:
        """Start another process where there is none; one that ended by itself is remembered."""
        if self._process is not None and not self._process.is_alive():
            self.by_itself.append(f"status {self._process.exitcode}: {self.said().strip().rpartition(os.linesep)[2]}")
            self._process, self._due = None, time.monotonic() + _PAUSE_MAX_S
        if self._process is None and time.monotonic() >= self._due:
            self.start()

    def terminate(self) -> int | None:
        """End its process as one does; return the status it ended with, None where there is none."""
        if self._process is None:
            return None
        self._process.terminate()
        self._process.join()
        status, self._process = self._process.exitcode, None
        return status

    def end(self) -> None:
        """Kill its process, where there is one, for good."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def kill_child(pid: int, rng: random.Random) -> bool:
    """Kill a child of a process, any of them; whether it had one."""
    children = [child for task in Path(f"/proc/{pid}/task").glob("*/children") for child in _read(task).split()]
    if not children:
        return False
    try:
        os.kill(int(rng.choice(children)), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _enter(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/run/netns", namespace).open() as file:
        if libc.setns(file.fileno(), _NETWORK) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network {namespace}")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process is gone
        return ""


def _become(arguments: list[str], variables: dict[str, str], log: str, namespace: str | None) -> None:
    die_with_parent(os.getppid())
    if namespace is not None:
        _enter(namespace)
    for name in [name for name in os.environ if name.startswith("LEAGUE_")]:
        del os.environ[name]
    os.environ.update(variables)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    sys.argv = arguments
    importlib.import_module(f"{arguments[0]}.cli").main(arguments[1:])
