"""Worker process that steps some rows of a batch. `pool` starts it, and it exits with its parent."""

import contextlib
import faulthandler
import importlib
import json
import mmap
import os
import select
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import TypeVar

from arena.environments.adapters.match import SingleMatchGame
from arena.environments.adapters.subprocess.buffers import Buffers
from arena.environments.adapters.subprocess.rows import Part, Rows
from arena.errors import InputError

OPEN, STEP = b"open", b"step"
"""Commands, followed by the name of a part of the rows; executed one at a time."""

DONE = b"done"
"""Answer to a completed command; any other answer is the traceback of a failure."""

WAIT_FOREVER_MS = -1

Result = TypeVar("Result")


@dataclass(frozen=True)
class Task:
    """Task of a worker.

    Attributes:
        opener: `module:callable` that returns the game by name.
        name: Name of the game.
        signature: Signature of its spec, which must be the same in the worker.
        num_envs: Matches of the whole batch.
        first: First row of this worker.
        last: Row after its last.
        memory: File descriptor of the batch's buffers.
    """

    opener: str
    name: str
    signature: str
    num_envs: int
    first: int
    last: int
    memory: int

    def encode(self) -> bytes:
        """Encode as a message."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, sent: bytes) -> "Task":
        """Decode a message."""
        return cls(**json.loads(sent))


def find_hosted(opener: str, name: str) -> SingleMatchGame:
    """Return the game that an opener, `module:callable`, finds by name."""
    module, _, attribute = opener.partition(":")
    hosted: SingleMatchGame = getattr(importlib.import_module(module), attribute)(name)
    return hosted


def main(descriptor: int) -> None:
    """Execute commands from a socket until its other end is closed."""
    # Prints the stack when the parent aborts this process because of a time limit.
    faulthandler.enable()
    threading.Thread(target=_leave_with_parent, args=(descriptor,), daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError), Connection(descriptor) as orders:
        _serve(orders)


def _serve(orders: Connection) -> None:
    """Execute commands until the connection is closed."""
    task = Task.decode(orders.recv_bytes())
    rows = _answered(orders, lambda: _make_rows(task))
    while True:
        what, name = orders.recv_bytes().split()
        _answered(orders, partial(rows.open if what == OPEN else rows.step, Part[name.decode()]))


def _answered(orders: Connection, work: Callable[[], Result]) -> Result:
    """Run a command and report its completion; on failure send the traceback and exit."""
    try:
        result = work()
    except BaseException:  # noqa: BLE001  a game may raise anything, even SystemExit, and the parent waits
        orders.send_bytes(traceback.format_exc().encode())
        sys.exit(1)
    orders.send_bytes(DONE)
    return result


def _make_rows(task: Task) -> Rows:
    game = find_hosted(task.opener, task.name)
    if game.spec.signature != task.signature:
        raise InputError(
            f"{task.name} has signature {game.spec.signature} in another process, and {task.signature} where it "
            "was asked for: let it declare the same in every process"
        )
    memory = memoryview(mmap.mmap(task.memory, 0))
    # The mapping keeps the memory alive without the descriptor.
    os.close(task.memory)
    return Rows(game, Buffers.over(game.spec, task.num_envs, memory), task.first, task.last)


def _leave_with_parent(descriptor: int) -> None:
    """Exit at once if the other end of the socket is closed, even during a step."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)  # no events requested: errors and hang-ups are always reported
    hung_up.poll(WAIT_FOREVER_MS)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
