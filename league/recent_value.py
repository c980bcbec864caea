"""A value that many callers want and that may be a moment old."""

import threading
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

T = TypeVar("T")


class RecentValue(Generic[T]):
    """Cache of one value; concurrent callers wait for one computation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entry: tuple[Hashable, datetime, T] | None = None

    def get(self, key: Hashable, now: datetime, lifetime: timedelta, compute: Callable[[], T]) -> T:
        """Return the cached value, or compute it if it is older than `lifetime` or was computed for another key."""
        # The lock covers the computation: concurrent callers wait for the result instead of computing it as well.
        with self._lock:
            entry = self._entry
            if entry is None or entry[0] != key or abs(now - entry[1]) >= lifetime:  # a clock may have been set back
                entry = self._entry = key, now, compute()
            return entry[2]
