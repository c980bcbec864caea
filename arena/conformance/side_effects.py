"""Check of side effects: files written, bytes unpickled, connections opened and processes started by a game."""

import os
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any

from arena.conformance.check import ViolationError, check
from arena.conformance.transitions import play
from arena.conformance.trial import Trial

WATCHED = 200
"""Number of decisions in which side effects are recorded."""

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


@check("side effects")
def side_effects(trial: Trial) -> str:
    """A match writes only temporary files, unpickles nothing, opens no connection, starts no process and leaves no
    thread that blocks the exit of the program.

    Remedy: load everything when the module is imported or the game is created, write nothing during matches, and make
    threads daemons.
    """
    env = trial.open(rows=2)
    shown, watched, thread = env.reset(), _watched_threads(), threading.get_ident()
    # Python finds the temporary folder at the first call by opening files in it, which the hook must not see: it would
    # ask for the folder again, and wait for the lock of the first call for ever.
    tempfile.gettempdir()
    found = watched[thread] = []
    try:
        for _ in play(env, shown, trial.rng(), WATCHED):
            pass
    finally:
        del watched[thread]
    left = sorted(blocking_threads() - trial.threads, key=str)
    if found := [*found, *(f"leaves thread {each.name} behind" for each in left)]:
        others = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise ViolationError(f"during a match it {found[0]}{others}")
    return "no file, no pickle, no connection, no process (by Python code)"


def blocking_threads() -> set[threading.Thread]:
    """Return the non-daemon threads, which delay the exit of the program; threads of executors do not."""
    return {each for each in threading.enumerate() if not each.daemon and not each.name.startswith(EXECUTORS)}


@cache
def _watched_threads() -> dict[int, list[str]]:
    """Return the side effects of each watched thread; calls by C code are not visible.

    The first call adds the only audit hook of the process, because Python cannot remove one.
    """
    watched: dict[int, list[str]] = {}

    def record(event: str, arguments: tuple[Any, ...]) -> None:
        effects = watched.get(threading.get_ident())
        if effects is None:
            return
        if event == "open" and _writes(*arguments):
            effects.append(f"writes {arguments[0]}")
        elif event in EFFECT_VERBS and not _temporary(arguments):
            effects.append(f"{EFFECT_VERBS[event]} {_object_of(event, arguments)}")

    sys.addaudithook(record)
    return watched


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
    text = os.fsdecode(path)
    return text in HARMLESS or COMPILED in text or Path(text).absolute().is_relative_to(tempfile.gettempdir())
