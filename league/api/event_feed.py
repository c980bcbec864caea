"""Event feed: new events, read once for all server-sent event streams."""

import threading
from collections.abc import Callable

from league import wire

Cursor = tuple[int, int]
"""Id of the last event and of the last match that the reader has heard of."""

Fresh = list[tuple[Cursor, wire.Event]]
"""Events in their order, each with the cursor to go on from once it is known."""


class EventFeed:
    """The last answers, for whoever asks for the same within a moment.

    Args:
        lasts_s: How long an answer is good, >= 0; shorter than the time between two questions of a stream.
        clock: Monotonic seconds.
    """

    def __init__(self, lasts_s: float, clock: Callable[[], float]) -> None:
        self._lasts_s, self._clock = lasts_s, clock
        self._lock = threading.Lock()
        self._answers: dict[Cursor, tuple[float, Fresh]] = {}

    def since(self, cursor: Cursor, read: Callable[[], Fresh]) -> Fresh:
        """Return what came after a cursor: what `read` says, or said to somebody else just now."""
        with self._lock:
            now_s = self._clock()
            self._answers = {key: each for key, each in self._answers.items() if now_s - each[0] < self._lasts_s}
            if cursor not in self._answers:
                self._answers[cursor] = now_s, read()
            return self._answers[cursor][1]
