"""Token cache: principals of recent bearer tokens, and the times at which their use was last recorded.

A principal is cached for `memory_s`, which is the longest delay until a revocation, or the first token, takes effect. A
database query for every call would double the cost of a heartbeat. Invalid tokens are not cached.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from league.auth import Principal

USE_RECORD_INTERVAL = timedelta(minutes=10)


class TokenCache:
    """Principals by the digest of their token, None for calls without a token.

    Args:
        memory_s: Cache lifetime in seconds; 0 disables the cache.
    """

    def __init__(self, memory_s: float) -> None:
        self._memory = timedelta(seconds=memory_s)
        self._principals: dict[str | None, tuple[Principal, datetime, datetime]] = {}
        self._pending: dict[str | None, asyncio.Future[Principal]] = {}
        self._recorded_at: dict[str, datetime] = {}
        self._lock = threading.Lock()

    async def find(self, digest: str | None, now: datetime, query: Callable[[], Awaitable[Principal]]) -> Principal:
        """Return the cached principal of a token, or query it; concurrent calls share one query."""
        principal, since, until = self._principals.get(digest, (None, now, now))
        if principal is not None and since <= now < until:  # the clock may have been set back
            return principal
        principal = await (self._query_once(digest, query) if self._memory else query())
        until = now + self._memory
        # A cached token must not outlive its expiry.
        until = until if principal.expires_at is None else min(until, principal.expires_at)
        # Only valid tokens reach this line, so guessed ones cannot fill the cache.
        self._principals[digest] = principal, now, until
        return principal

    def should_record_use(self, token: str, now: datetime) -> bool:
        """Return True if the use of a token is to be recorded, which happens every `USE_RECORD_INTERVAL`."""
        with self._lock:
            recorded_at = self._recorded_at.get(token)
            # A negative age means that the clock was set back.
            due = recorded_at is None or not timedelta(0) <= now - recorded_at < USE_RECORD_INTERVAL
            if due:
                self._recorded_at[token] = now
        return due

    async def _query_once(self, digest: str | None, query: Callable[[], Awaitable[Principal]]) -> Principal:
        """Share a pending query: otherwise all concurrent calls would query whenever an entry expires."""
        pending = self._pending.get(digest)
        if pending is None:
            pending = self._pending[digest] = asyncio.ensure_future(query())
            pending.add_done_callback(lambda _: self._pending.pop(digest))
        return await asyncio.shield(pending)  # a cancelled caller does not cancel the query for the others
