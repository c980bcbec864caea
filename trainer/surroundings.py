"""What a worker takes from the outside: time, and when to stop."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType

from league.tether import untie
from trainer.errors import CallCutShortError

GRACE_S = 1.5
"""How long after a signal the league is still called: whoever sent it waits for the end."""

LEAVE_WITHIN_S = 7.0
"""How long after SIGTERM the process is ended, whatever it is in the middle of: supervisors kill after ten seconds."""

ENDED_BY_SIGTERM = 128 + signal.SIGTERM

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Surroundings:
    """Time and signals.

    Attributes:
        now: The time, aware.
        clock: Monotonic seconds.
        stopping: Whether to leave at the next occasion.
        late: Whether it is high time: nothing but saving is left to do.
        pause: Sleeps so many seconds, or until `stopping`.
    """

    now: Callable[[], datetime]
    clock: Callable[[], float]
    stopping: Callable[[], bool]
    late: Callable[[], bool]
    pause: Callable[[float], None]


class Signals:
    """SIGINT, SIGTERM and SIGHUP of this process while it is entered; after one, SIGINT or SIGTERM end it at once.

    The first asks to leave at the next occasion. Should the main thread be in a call that cannot be interrupted, such
    as a compilation, SIGTERM ends the process after `LEAVE_WITHIN_S`: what was saved last is whole. A terminal that
    closes may send SIGHUP twice; where it is ignored, as under `nohup`, it stays so. Enter it in the main thread.

    Args:
        say: Tells a person.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._asked = threading.Event()
        self._asked_at = 0.0
        self._calling = False
        self._heeded: list[signal.Signals] = []

    def surroundings(self) -> Surroundings:
        """Time and signals, for a worker."""
        return Surroundings(
            now=lambda: datetime.now(UTC),
            clock=time.monotonic,
            stopping=self._asked.is_set,
            late=lambda: self._asked.is_set() and time.monotonic() > self._asked_at + GRACE_S,
            pause=self._pause,
        )

    @contextmanager
    def entered(self) -> Iterator[Surroundings]:
        """Heed the signals, and leave them as they were."""
        orphaned = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._heeded = [number for number in SIGNALS if not (orphaned and number is signal.SIGHUP)]
        before = {number: signal.signal(number, self._stop) for number in self._heeded}
        heard, told = socket.socketpair()
        told.setblocking(False)
        heard_before = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=_end_in_time, args=(heard,), daemon=True).start()
        try:
            yield self.surroundings()
        finally:
            signal.set_wakeup_fd(heard_before)
            told.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Make a call that the first signal cuts short, in the main thread; signals reach no other.

        Raises:
            CallCutShortError: A signal came.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._calling = not self._asked.is_set()
        try:
            yield
        finally:
            self._calling = False

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._asked_at = time.monotonic()
        self._asked.set()
        untie()  # else the same death could ask again
        for each in self._heeded:
            signal.signal(each, signal.SIG_IGN if each is signal.SIGHUP else signal.SIG_DFL)
        self._say(f"{signal.Signals(number).name}: saving and leaving; again to leave at once")
        if self._calling:
            self._calling = False
            raise CallCutShortError("a signal came during a call to the league")

    def _pause(self, seconds: float) -> None:
        self._asked.wait(seconds)


def _end_in_time(heard: socket.socket) -> None:
    """Wait for SIGTERM, of which a thread hears even while the main one is in a call, and end the process in time."""
    with heard:
        while (number := heard.recv(1)) and number[0] != signal.SIGTERM:
            pass
        if not number:
            return
        heard.settimeout(LEAVE_WITHIN_S)
        try:
            while heard.recv(1):
                pass
        except TimeoutError:
            sys.stderr.write("trainer: still busy, so leaving at once; what was saved last is whole\n")
            sys.stderr.flush()
            os._exit(ENDED_BY_SIGTERM)
