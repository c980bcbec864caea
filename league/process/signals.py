"""Handling of termination signals: SIGINT, SIGTERM and SIGHUP, once or repeated."""

import signal
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalFlag:
    """Event that a signal handler may set.

    Setting a `threading.Event` in a handler deadlocks if the main thread holds the event's lock, as it does at the
    start and the end of `wait`. `SimpleQueue.put` is documented as reentrant.
    """

    def __init__(self) -> None:
        self._set = False
        self._waking: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Whether `set` has been called."""
        return self._set

    def set(self) -> None:
        """Set the flag permanently and wake all waiting threads."""
        self._set = True
        self._waking.put(None)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the flag is set or `timeout_s` >= 0 expires; return True if it is set."""
        if not self._set:
            try:
                self._waking.get(timeout=timeout_s)
            except Empty:
                return self._set
            self._waking.put(None)  # wake the next waiting thread
        return True


class EndSignals:
    """Context manager that counts termination signals in the main thread and restores their handlers.

    Args:
        again: Called from the signal handler at each signal after the first.

    Attributes:
        count: Number of received signals.
    """

    def __init__(self, again: Callable[[], None] | None = None) -> None:
        self.count = 0
        self._again = again
        self._received = SignalFlag()
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._handle) for number in ENDING}
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the first signal; return True if it has arrived."""
        return self._received.wait(timeout_s)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self._received.set()
        # The second signal means that the user does not want to wait for the graceful shutdown.
        if self.count > 1 and self._again is not None:
            self._again()
