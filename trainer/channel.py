"""Short messages between two processes of one machine, heard within microseconds of being sent."""

import json
import math
import select
import socket
from typing import Any

MOST_BYTES = 4096
"""Longest message."""

LOOK_S = 1.0
"""How long one sleeps at a time: of a pause in which one was stopped oneself no more than that counts as waiting."""

GLANCES = 4000
"""How often one looks for a message before one sleeps until it comes: some milliseconds, since waking takes long and
may bring both ends to one processor."""

Message = list[Any]
"""A word, and numbers or text that belong to it."""


class Channel:
    """One of two ends. It hears of it when the other one is closed, also by its process being killed.

    Args:
        end: A socket that keeps messages apart, as `pair` makes them.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, *message: Any) -> None:  # noqa: ANN401 - whatever JSON can say
        """Say something; whether anybody is there shows when one listens.

        Raises:
            ValueError: It is longer than messages are: half of one says nothing.
        """
        text = json.dumps(message).encode()
        if len(text) > MOST_BYTES:
            raise ValueError(f"a message of {len(text)} bytes: {MOST_BYTES} at most are heard")
        try:
            self._end.send(text)
        except (BrokenPipeError, ConnectionResetError):
            return

    def receive(self, patience_s: float = math.inf) -> Message | None:
        """The next message, as soon as it is there; None once the other end is closed.

        Args:
            patience_s: How long to wait for it.

        Raises:
            TimeoutError: Nothing has come.
        """
        for _ in range(GLANCES):
            try:
                return self._read(socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
        ears, waited = select.poll(), 0.0
        ears.register(self._end, select.POLLIN)
        while waited < patience_s:
            look = min(LOOK_S, patience_s - waited)
            if ears.poll(1000.0 * look):
                return self._read(0)
            waited += look
        raise TimeoutError(f"nothing has come in {patience_s:g} s")

    def close(self) -> None:
        """Leave; the other end hears of it."""
        self._end.close()

    def _read(self, flags: int) -> Message | None:
        try:
            text = self._end.recv(MOST_BYTES, flags)
        except ConnectionResetError:  # it left without hearing everything; what it said before is still here
            text = self._end.recv(MOST_BYTES, flags)
        message: Message | None = json.loads(text) if text else None
        return message


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends, of which children inherit neither unless they are given it."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
