"""Event feed: new events, read once for all server-sent event streams."""

import threading
from collections.abc import Callable

from cachetools import TTLCache

from league.services.audit.log import AuditEntry

Cursor = tuple[int, int]
"""Id of the last event and of the last match that the reader has heard of."""

Fresh = list[tuple[Cursor, AuditEntry]]
"""Events in their order, each with the cursor to go on from once it is known."""


_CURSORS_MAX = 1024


class EventFeed:
    """The last answers, for readers that ask for the same within a moment.

    Args:
        lasts_s: How long an answer is good, >= 0; shorter than the time between two questions of a stream.
        clock: Monotonic seconds.
    """

    def __init__(self, lasts_s: float, clock: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self._answers: TTLCache[Cursor, Fresh] = TTLCache(_CURSORS_MAX, lasts_s, clock)

    def since(self, cursor: Cursor, read: Callable[[], Fresh]) -> Fresh:
        """Return what came after a cursor: the result of `read`, or that of another reader just now."""
        with self._lock:
            found = self._answers.get(cursor)
            if found is None:
                found = self._answers[cursor] = read()
            return found
