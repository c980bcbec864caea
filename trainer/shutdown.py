"""Graceful shutdown: the signal handlers of a worker, and the clock and stop flag that it reads."""

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

from league.process.die_with_parent import outlive_parent
from league.process.signals import SignalFlag
from trainer.errors import CallCutShortError

GRACE_S = 5.0
"""Seconds after a signal in which undelivered results are still sent to the league (shutdown grace)."""

LEAVE_WITHIN_S = 7.0
"""Seconds after SIGTERM until the process exits, even in the middle of a call: supervisors kill it after ten."""

ENDED_BY_SIGTERM = 128 + signal.SIGTERM  # the status that shells report for it

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class RunContext:
    """Clock and stop flag of a worker; tests replace both.

    Attributes:
        now: Current time, aware.
        clock: Monotonic time in seconds.
        stopping: Whether a shutdown signal has come; the worker stops at the next safe point.
        past_grace: Whether `GRACE_S` have passed since the signal; only saving is left to do.
        pause: Sleeps for some seconds; returns early once `stopping` is true.
        sleep: Sleeps for some seconds, even if `stopping` is true.
    """

    now: Callable[[], datetime]
    clock: Callable[[], float]
    stopping: Callable[[], bool]
    past_grace: Callable[[], bool]
    pause: Callable[[float], None]
    sleep: Callable[[float], None]


class ShutdownSignals:
    """Handlers of SIGINT, SIGTERM and SIGHUP: the first signal requests a shutdown, a second one exits at once.

    If the main thread is in a call that cannot be interrupted, such as a compilation, SIGTERM ends the process after
    `LEAVE_WITHIN_S`; the last saved state is complete. A terminal that closes may send SIGHUP twice, so a second SIGHUP
    is ignored. If SIGHUP was ignored before, as under `nohup`, it stays ignored. Enter it in the main thread.

    Args:
        log: Prints a line.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._requested = SignalFlag()
        self._requested_at = 0.0
        self._in_call = False
        self._handled: list[signal.Signals] = []

    def run_context(self) -> RunContext:
        """Return the clock and the stop flag for a worker."""
        return RunContext(
            now=lambda: datetime.now(UTC),
            clock=time.monotonic,
            stopping=self._requested.is_set,
            past_grace=lambda: self._requested.is_set() and time.monotonic() > self._requested_at + GRACE_S,
            pause=self._pause,
            sleep=time.sleep,
        )

    @contextmanager
    def entered(self) -> Iterator[RunContext]:
        """Handle the signals within the block, and restore the previous handlers after it."""
        # Under `nohup` SIGHUP is ignored, and a handler would undo that.
        hangup_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._handled = [number for number in SIGNALS if not (hangup_ignored and number is signal.SIGHUP)]
        before = {number: signal.signal(number, self._stop) for number in self._handled}
        receiver, sender = socket.socketpair()
        # `set_wakeup_fd` requires it: a full buffer must not block a signal.
        sender.setblocking(False)
        wakeup_fd_before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=_exit_in_time, args=(receiver,), daemon=True).start()
        try:
            yield self.run_context()
        finally:
            signal.set_wakeup_fd(wakeup_fd_before)
            sender.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Interrupt a call at the first signal. No effect outside the main thread, since signals reach no other.

        Raises:
            CallCutShortError: A signal came during the call.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._in_call = not self._requested.is_set()
        try:
            yield
        finally:
            self._in_call = False

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._requested_at = time.monotonic()
        self._requested.set()
        outlive_parent()  # the parent's death would otherwise send a second signal
        for each in self._handled:
            # The default action makes a second SIGINT or SIGTERM end the process at once.
            signal.signal(each, signal.SIG_IGN if each is signal.SIGHUP else signal.SIG_DFL)
        self._log(f"{signal.Signals(number).name}: saving before exit; send it again to exit at once")
        if self._in_call:
            self._in_call = False
            raise CallCutShortError("a signal arrived during a call to the league")

    def _pause(self, seconds: float) -> None:
        self._requested.wait(seconds)


def _exit_in_time(receiver: socket.socket) -> None:
    """Exit `LEAVE_WITHIN_S` after SIGTERM, in a thread: the main one may be in a call that delays its handlers."""
    with receiver:
        # The interpreter writes the number of each signal here even while the main thread is in native code.
        while (number := receiver.recv(1)) and number[0] != signal.SIGTERM:
            pass
        if not number:
            return
        receiver.settimeout(LEAVE_WITHIN_S)
        try:
            while receiver.recv(1):
                pass
        except TimeoutError:
            sys.stderr.write("trainer: still busy after SIGTERM, so exiting now; the last saved state is complete\n")
            sys.stderr.flush()
            # Not `sys.exit`, which would wait for the main thread.
            os._exit(ENDED_BY_SIGTERM)
