"""Rate limit by token bucket, and the cache of tokens: who callers are, and when a token's use was noted.

Whose a secret is, it remembers for `memory_s` only: that a token was revoked, or the first one made, takes effect
within that time. To ask the database at every call would double what a heartbeat costs. A secret that is nobody's is
asked about every time.

Each caller has a token bucket per request class: it holds `burst` calls, refills at `per_s`, and a call that finds it
empty is refused. A caller that reads too much can therefore still report. Each process counts for itself.

Source: the token bucket of RFC 2697, with one rate.
"""

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from league.auth import Principal
from league.errors import RateLimitedError
from league.request_class import RequestClass

REFUSED_COST = 100
"""A call with an invalid token counts as so many, which slows down attempts to guess tokens."""

NOTE_EVERY = timedelta(minutes=10)

_CALLERS_MAX = 10_000

_Count = tuple[str, RequestClass | None]
"""What is counted apart: a caller's calls of one class."""


@dataclass
class _Bucket:
    calls: float
    filled_at: datetime


class RateLimiter:
    """The callers of one process.

    Args:
        per_s: Calls a second that a caller may make for ever.
        burst: Calls that it may make at once.
        memory_s: How long it is remembered who has a secret.
    """

    def __init__(self, per_s: float, burst: int, memory_s: float) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._memory = timedelta(seconds=memory_s)
        self._known: dict[str | None, tuple[Principal, datetime, datetime]] = {}
        self._asked: dict[str | None, asyncio.Future[Principal]] = {}
        self._buckets: dict[_Count, _Bucket] = {}
        self._noted: dict[str, datetime] = {}
        self._lock = threading.Lock()

    def recall(self, digest: str | None, now: datetime) -> Principal | None:
        """Return who has a secret, None being no secret at all; None where the database must be asked."""
        principal, since, until = self._known.get(digest, (None, now, now))
        return principal if since <= now < until else None  # a clock that is set back makes nothing last longer

    def remember(self, digest: str | None, principal: Principal, now: datetime) -> None:
        """Keep who has a secret for a while, and no longer than its token lasts."""
        until = now + self._memory
        until = until if principal.expires_at is None else min(until, principal.expires_at)
        self._known[digest] = principal, now, until

    async def ask_once(self, digest: str | None, ask: Callable[[], Awaitable[Principal]]) -> Principal:
        """Ask who has a secret; calls that come meanwhile wait for the same answer, if answers last at all.

        Otherwise each time that a memory ends, all calls under way would ask.
        """
        if not self._memory:
            return await ask()
        asked = self._asked.get(digest)
        if asked is None:
            asked = self._asked[digest] = asyncio.ensure_future(ask())
            asked.add_done_callback(lambda _: self._asked.pop(digest))
        return await asyncio.shield(asked)  # who is cut off does not take the answer from the others

    def admit(self, caller: str, request_class: RequestClass | None, now: datetime, cost: int = 1) -> None:
        """Count a call in its class; those without one are counted together.

        Raises:
            RateLimitedError: The caller made too many of late; `retry_after_s` says how long to wait.
        """
        with self._lock:
            bucket = self._filled((caller, request_class), now)
            if bucket.calls >= min(cost, self._burst):
                bucket.calls -= cost
                return
            wait_s = (min(cost, self._burst) - bucket.calls) / self._per_s
        kind = "" if request_class is None else f" in the class {request_class}"
        rule = f"this server takes {self._per_s:g} calls a second of one caller{kind}, and {self._burst:g} at once"
        error = RateLimitedError(
            f"from {caller}", rule, "call again later, send larger batches, or raise LEAGUE_RATE_PER_S"
        )
        error.retry_after_s = max(1, math.ceil(wait_s))
        raise error

    def use_to_note(self, token: str, now: datetime) -> bool:
        """Say whether the use of a token is due to be written down, as it is every ten minutes."""
        with self._lock:
            noted = self._noted.get(token)
            due = noted is None or not timedelta(0) <= now - noted < NOTE_EVERY  # the clock may have been set back
            if due:
                self._noted[token] = now
        return due

    def _filled(self, count: _Count, now: datetime) -> _Bucket:
        bucket = self._buckets.get(count)
        if bucket is None:
            self._forget_idle(now)
            bucket = self._buckets[count] = _Bucket(self._burst, now)
        self._fill(bucket, now)
        return bucket

    def _fill(self, bucket: _Bucket, now: datetime) -> None:
        passed_s = max(0.0, (now - bucket.filled_at).total_seconds())
        bucket.calls = min(self._burst, bucket.calls + passed_s * self._per_s)
        bucket.filled_at = now

    def _forget_idle(self, now: datetime) -> None:
        """Drop full buckets, which are as good as none, once there are many."""
        if len(self._buckets) < _CALLERS_MAX:
            return
        for bucket in self._buckets.values():
            self._fill(bucket, now)
        self._buckets = {count: bucket for count, bucket in self._buckets.items() if bucket.calls < self._burst}
