"""Partners of an update as threads of the test's own process: they start at once, and can be changed by a test."""

import contextlib
import os
import socket
import threading

from trainer.board import Board, Setup
from trainer.channel import Channel
from trainer.partner import Partner


class PartnerThread:
    """Looks like a process to whoever waits for its end. After a test that failed it keeps nobody from leaving."""

    pid = 0

    def __init__(self, setup: Setup, number: int, channel: int, memory: int) -> None:
        self._setup, self._number = setup, number
        self._board, self._socket = Board.open(setup, memory), socket.socket(fileno=os.dup(channel))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> int:
        self._thread.join(timeout)
        assert not self._thread.is_alive()
        return 0

    def kill(self) -> None:
        raise AssertionError("a partner did not leave")

    def _serve(self) -> None:
        with contextlib.closing(Channel(self._socket)) as line:
            Partner(self._setup, self._number, self._board, line).serve()
