"""A process that steps some rows of a batch. It is started by `pool`, and ends with whoever started it."""

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
"""What a worker is told to do, with the name of a part of its rows behind it. It takes one order after another."""

DONE = b"done"
"""What it answers; anything else is why it cannot go on, as a traceback."""

WAIT_FOREVER_MS = -1

Result = TypeVar("Result")


@dataclass(frozen=True)
class Task:
    """What a worker is there for.

    Attributes:
        opener: `module:callable` that finds the game by its name, and returns what is hosted.
        name: Of the game.
        signature: Of its spec, which has to be the same here.
        num_envs: Matches of the whole batch.
        first: The first row that is this worker's.
        last: The one after its last.
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
        """As it is sent."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, sent: bytes) -> "Task":
        """As it was sent."""
        return cls(**json.loads(sent))


def find_hosted(opener: str, name: str) -> SingleMatchGame:
    """The game that an opener, `module:callable`, finds by a name."""
    module, _, attribute = opener.partition(":")
    hosted: SingleMatchGame = getattr(importlib.import_module(module), attribute)(name)
    return hosted


def main(descriptor: int) -> None:
    """Do what is told over a socket until its other end is closed."""
    faulthandler.enable()
    threading.Thread(target=_leave_with_parent, args=(descriptor,), daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError), Connection(descriptor) as orders:
        _serve(orders)


def _serve(orders: Connection) -> None:
    """Carry out orders until there is nobody who gives any."""
    task = Task.decode(orders.recv_bytes())
    rows = _answered(orders, lambda: _make_rows(task))
    while True:
        what, name = orders.recv_bytes().split()
        _answered(orders, partial(rows.open if what == OPEN else rows.step, Part[name.decode()]))


def _answered(orders: Connection, work: Callable[[], Result]) -> Result:
    """Do something and say that it is done, or say why not and leave."""
    try:
        result = work()
    except BaseException:  # noqa: BLE001  whatever a game raises, `sys.exit` too: whoever waits for it has to hear of it
        orders.send_bytes(traceback.format_exc().encode())
        sys.exit(1)
    orders.send_bytes(DONE)
    return result


def _make_rows(task: Task) -> Rows:
    game = find_hosted(task.opener, task.name)
    if game.spec.signature != task.signature:
        raise InputError(
            f"{task.name} has signature {game.spec.signature} in a process of its own, and {task.signature} where it "
            "was asked for: let it declare the same in every process"
        )
    memory = memoryview(mmap.mmap(task.memory, 0))
    os.close(task.memory)
    return Rows(game, Buffers.over(game.spec, task.num_envs, memory), task.first, task.last)


def _leave_with_parent(descriptor: int) -> None:
    """Leave at once where the other end of the socket is closed, also in the middle of a step."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)  # asks for nothing but what is always told: errors, and that it is closed
    hung_up.poll(WAIT_FOREVER_MS)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
