"""Rate limit: one token bucket per caller and request class.

A bucket holds `burst` calls, refills at `per_s`, and rejects a call when it is empty. Because classes have separate
buckets, a caller that reads too much can still report. Each process has its own buckets.

Source: the token bucket of RFC 2697, with one rate.
"""

import math
import threading
from dataclasses import dataclass
from datetime import datetime

from league.errors import RateLimitedError
from league.request_class import RequestClass

REFUSED_COST = 100
"""Cost of a call with an invalid token, which slows down attempts to guess tokens."""

_CALLERS_MAX = 10_000  # bounds the memory: without authentication, every address is a caller

_Count = tuple[str, RequestClass | None]
"""Key of a bucket: the caller and a request class."""


@dataclass
class _Bucket:
    calls: float
    filled_at: datetime


class RateLimiter:
    """Token buckets of the callers of one process.

    Args:
        per_s: Sustained calls per second of a caller.
        burst: Size of a bucket in calls.
    """

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._buckets: dict[_Count, _Bucket] = {}
        self._lock = threading.Lock()

    def admit(self, caller: str, request_class: RequestClass | None, now: datetime, cost: int = 1) -> None:
        """Take a call's cost from its bucket; calls without a class share one bucket.

        Raises:
            RateLimitedError: The bucket is empty; `retry_after_s` is the wait.
        """
        with self._lock:
            bucket = self._filled((caller, request_class), now)
            if bucket.calls >= min(cost, self._burst):
                bucket.calls -= cost
                return
            # A cost above the bucket's size would never be available.
            wait_s = (min(cost, self._burst) - bucket.calls) / self._per_s
        kind = "" if request_class is None else f" in the class {request_class}"
        rule = f"it accepts {self._per_s:g} calls per second from one caller{kind}, with bursts of {self._burst:g}"
        error = RateLimitedError(
            f"from {caller}", rule, "call again later, send larger batches, or raise LEAGUE_RATE_PER_S"
        )
        error.retry_after_s = max(1, math.ceil(wait_s))
        raise error

    def _filled(self, count: _Count, now: datetime) -> _Bucket:
        bucket = self._buckets.get(count)
        if bucket is None:
            # Only when a bucket is added, so that usual calls do not pay for it.
            self._forget_idle(now)
            bucket = self._buckets[count] = _Bucket(self._burst, now)
        self._fill(bucket, now)
        return bucket

    def _fill(self, bucket: _Bucket, now: datetime) -> None:
        # The clock may have been set back.
        passed_s = max(0.0, (now - bucket.filled_at).total_seconds())
        bucket.calls = min(self._burst, bucket.calls + passed_s * self._per_s)
        bucket.filled_at = now

    def _forget_idle(self, now: datetime) -> None:
        """Drop full buckets once there are many; a new bucket is full as well."""
        if len(self._buckets) < _CALLERS_MAX:
            return
        for bucket in self._buckets.values():
            self._fill(bucket, now)
        self._buckets = {count: bucket for count, bucket in self._buckets.items() if bucket.calls < self._burst}
