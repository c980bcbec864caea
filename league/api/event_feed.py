"""Event feed: one read of new events serves all server-sent event streams."""

import threading
from collections.abc import Callable

from cachetools import TTLCache

from league.services.audit.log import AuditEntry

Cursor = tuple[int, int]
"""Ids of the last event and the last match that the reader has received."""

NewEvents = list[tuple[Cursor, AuditEntry]]
"""Events in order, each with the cursor that follows it."""


_CURSORS_MAX = 1024  # callers choose their cursors, so their number is bounded here


class EventFeed:
    """Cache of recent reads, for streams that ask with the same cursor at about the same time.

    Args:
        ttl_s: Lifetime of an entry in seconds, >= 0; shorter than the poll interval of a stream.
        clock: Monotonic seconds.
    """

    def __init__(self, ttl_s: float, clock: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self._cache: TTLCache[Cursor, NewEvents] = TTLCache(_CURSORS_MAX, ttl_s, clock)

    def since(self, cursor: Cursor, read: Callable[[], NewEvents]) -> NewEvents:
        """Return the events after a cursor, from `read` or from another reader's recent read."""
        with self._lock:
            found = self._cache.get(cursor)
            if found is None:
                # Within the lock: streams that ask at the same time wait for one read instead of repeating it.
                found = self._cache[cursor] = read()
            return found
