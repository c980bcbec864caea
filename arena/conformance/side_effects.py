"""Check of side effects: files written, bytes unpickled, connections opened and processes started by a game."""

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from arena.conformance.report import ViolationError

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
HARMLESS = ("/dev/null", "/dev/zero", "/dev/urandom")

COMPILED = "__pycache__"
"""Folder of compiled modules, which Python itself writes."""

EXECUTORS = "ThreadPoolExecutor"
"""Name prefix of the threads of Python's executors."""

EFFECT_VERBS = {
    "pickle.find_class": "unpickles",
    "os.remove": "removes",
    "os.rename": "renames",
    "os.mkdir": "makes the folder",
    "os.rmdir": "removes the folder",
    "os.truncate": "cuts",
    "socket.connect": "connects to",
    "subprocess.Popen": "starts",
    "os.system": "starts",
    "os.exec": "starts",
    "os.posix_spawn": "starts",
}
"""Python audit events and the verb for each in a finding; see the table of audit events in Python's documentation."""


class _Watch:
    """Audit hook that records the side effects of one thread."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.effects: list[str] = []

    def record(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record an audit event."""
        if self.thread != threading.get_ident():
            return
        if event == "open" and _writes(*arguments):
            self.effects.append(f"writes {arguments[0]}")
        elif event in EFFECT_VERBS and not _temporary(arguments):
            self.effects.append(f"{EFFECT_VERBS[event]} {_object_of(event, arguments)}")


@lru_cache(maxsize=1)
def _watch() -> _Watch:
    """Return the only hook of the process, because Python cannot remove an audit hook."""
    watch = _Watch()
    sys.addaudithook(watch.record)
    return watch


@contextmanager
def watching() -> Iterator[list[str]]:
    """Record the side effects of this thread; calls by C code are not visible."""
    watch = _watch()
    # Python finds the temporary folder at the first call by opening files in it, which the hook must not see: it would
    # ask for the folder again, and wait for the lock of the first call for ever.
    tempfile.gettempdir()
    watch.effects, watch.thread = [], threading.get_ident()
    try:
        yield watch.effects
    finally:
        watch.thread = None


def blocking_threads() -> set[threading.Thread]:
    """Return the non-daemon threads, which delay the exit of the program; threads of executors do not."""
    return {each for each in threading.enumerate() if not each.daemon and not each.name.startswith(EXECUTORS)}


def report_side_effects(effects: list[str], threads: set[threading.Thread]) -> str:
    """Check recorded side effects and the threads that are still running."""
    found = [*effects, *(f"leaves thread {each.name} behind" for each in sorted(threads, key=str))]
    if found:
        others = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise ViolationError(f"during a match it {found[0]}{others}")
    return "no file, no pickle, no connection, no process (by Python code)"


def _writes(path: Any, mode: Any, flags: Any) -> bool:  # noqa: ANN401  whatever was opened
    """Return whether a file outside of the temporary folder was opened for writing."""
    return bool(flags & WRITING) and not isinstance(path, int) and not _temporary((path,))


def _object_of(event: str, arguments: tuple[Any, ...]) -> str:
    """Return the object of an event: module and class, address of the connection, or the first argument."""
    match event:
        case "pickle.find_class":
            return ".".join(map(str, arguments))
        case "socket.connect":
            return str(arguments[1])
        case _:
            return str(arguments[0])


def _temporary(arguments: tuple[Any, ...]) -> bool:
    """Return whether a path is temporary, a compiled module or a harmless device."""
    path = arguments[0] if arguments else None
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    where = os.fspath(path) if not isinstance(path, bytes) else os.fsdecode(path)
    text = where if isinstance(where, str) else os.fsdecode(where)
    return text in HARMLESS or COMPILED in text or Path(text).absolute().is_relative_to(tempfile.gettempdir())
