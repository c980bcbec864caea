"""Token cache: principals of recent bearer tokens, and the times at which their use was last recorded.

A principal is cached for `memory_s`, which is the longest delay until a revocation, or the first token, takes effect. A
database query for every call would double the cost of a heartbeat. Invalid tokens are not cached.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from league.auth import Principal

NOTE_EVERY = timedelta(minutes=10)


class TokenCache:
    """Principals by the digest of their token, None for calls without a token.

    Args:
        memory_s: Cache lifetime in seconds; 0 disables the cache.
    """

    def __init__(self, memory_s: float) -> None:
        self._memory = timedelta(seconds=memory_s)
        self._known: dict[str | None, tuple[Principal, datetime, datetime]] = {}
        self._pending: dict[str | None, asyncio.Future[Principal]] = {}
        self._noted: dict[str, datetime] = {}
        self._lock = threading.Lock()

    async def find(self, digest: str | None, now: datetime, ask: Callable[[], Awaitable[Principal]]) -> Principal:
        """Return the cached principal of a token, or query it; concurrent calls share one query."""
        principal, since, until = self._known.get(digest, (None, now, now))
        if principal is not None and since <= now < until:  # the clock may have been set back
            return principal
        principal = await (self._ask_once(digest, ask) if self._memory else ask())
        until = now + self._memory
        # A cached token must not outlive its expiry.
        until = until if principal.expires_at is None else min(until, principal.expires_at)
        self._known[digest] = principal, now, until
        return principal

    def is_note_due(self, token: str, now: datetime) -> bool:
        """Return True if the use of a token is to be recorded, which happens every `NOTE_EVERY`."""
        with self._lock:
            noted = self._noted.get(token)
            due = noted is None or not timedelta(0) <= now - noted < NOTE_EVERY  # the clock may have been set back
            if due:
                self._noted[token] = now
        return due

    async def _ask_once(self, digest: str | None, ask: Callable[[], Awaitable[Principal]]) -> Principal:
        """Share a pending query: otherwise all concurrent calls would query whenever an entry expires."""
        pending = self._pending.get(digest)
        if pending is None:
            pending = self._pending[digest] = asyncio.ensure_future(ask())
            pending.add_done_callback(lambda _: self._pending.pop(digest))
        return await asyncio.shield(pending)  # a cancelled caller does not cancel the query for the others
