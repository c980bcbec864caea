"""What asks a process that keeps others to end: SIGINT, SIGTERM and SIGHUP, once or again."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
        self._came = threading.Event()
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
        """Wait for the first signal; say whether it has come."""
        return self._came.wait(timeout_s)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self._came.set()
        if self.count > 1 and self._again is not None:
            self._again()
