"""Handling of the signals that ask a process to end: SIGINT, SIGTERM and SIGHUP, once or again."""

import signal
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalFlag:
    """An event that a signal handler may set.

    The handler of `threading.Event` would wait for ever if the signal came while the main thread held the event's lock,
    as it does at the start and the end of each `wait`. `SimpleQueue.put` is reentrant by its documentation.
    """

    def __init__(self) -> None:
        self._set = False
        self._waking: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Whether `set` has been called."""
        return self._set

    def set(self) -> None:
        """Set the flag for good, and wake all that wait for it."""
        self._set = True
        self._waking.put(None)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the flag is set, `timeout_s` >= 0 at most; return whether it is."""
        if not self._set:
            try:
                self._waking.get(timeout=timeout_s)
            except Empty:
                return self._set
            self._waking.put(None)  # for the next thread that waits
        return True


class EndSignals:
    """Counts the signals that come while it is entered, in the main thread; afterwards they do what they did before.

    Args:
        again: Called at each signal after the first, from its handler.

    Attributes:
        count: How many have come.
    """

    def __init__(self, again: Callable[[], None] | None = None) -> None:
        self.count = 0
        self._again = again
        self._came = SignalFlag()
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in ENDING}
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the first signal; return whether it has come."""
        return self._came.wait(timeout_s)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self._came.set()
        if self.count > 1 and self._again is not None:
            self._again()
