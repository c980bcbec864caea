"""Back-pressure: a call runs, waits in a bounded queue, or is rejected at once with the time to come back.

The contract is in docs/reference/results-protocol.md.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import get_args

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from league.api.metrics import Metrics
from league.errors import BusyError, LeagueError
from league.request_class import RequestClass, request_class
from league.settings.concurrency import ConcurrencyLimits

_SMOOTHING = 0.1  # weight of the newest call in the mean duration
_SPREAD = 0.5  # maximum share of Retry-After that is added at random


class QueueLimiter:
    """Concurrency limit of one request class with a bounded queue, first come first served.

    Args:
        running: Maximum concurrent calls.
        waiting: Maximum queued calls.
        clock: Monotonic seconds.

    Attributes:
        queue: The queued calls.
    """

    def __init__(self, running: int, waiting: int, clock: Callable[[], float]) -> None:
        self._running, self._waiting_max, self._clock = running, waiting, clock
        self._free = running
        self.queue: deque[asyncio.Future[None]] = deque()
        self._mean_s = 0.0
        self._rejected = 0

    async def enter(self, wait_s: float) -> bool:
        """Wait for a turn; False if the queue is full or the wait times out. A call that has entered must leave."""
        # No queued call is overtaken: `_pass_on` frees a slot only when the queue is empty.
        if self._free:
            self._free -= 1
            return True
        if len(self.queue) >= self._waiting_max:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.queue.append(turn)
        try:
            async with asyncio.timeout(wait_s):
                await turn
        # The turn may have come in the same iteration of the event loop as the timeout.
        except TimeoutError:
            return self._has_turn(turn)
        except asyncio.CancelledError:
            # Cancelled after the turn was granted: pass it on, or the slot would be lost.
            if self._has_turn(turn):
                self._pass_on()
            raise
        return True

    def leave(self, entered_s: float) -> None:
        """Let the next call run after one that entered at `entered_s`."""
        self._mean_s += _SMOOTHING * (self._clock() - entered_s - self._mean_s)
        # Each finished call makes room for one rejected call that comes back.
        self._rejected = max(0, self._rejected - 1)
        self._pass_on()

    def reject(self) -> float:
        """Count a rejected call; return the seconds until its turn, behind all calls before it."""
        self._rejected += 1
        return (len(self.queue) + self._rejected) * self._mean_s / self._running

    def _has_turn(self, turn: "asyncio.Future[None]") -> bool:
        """Stop waiting; return True if the turn came before that."""
        if not turn.cancelled():
            return True
        with suppress(ValueError):
            self.queue.remove(turn)
        return False

    def _pass_on(self) -> None:
        while self.queue:
            turn = self.queue.popleft()
            # A queued call may have timed out or been cancelled without leaving the queue yet.
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class ConcurrencyMiddleware:
    """Middleware that limits the concurrent calls of each request class.

    Args:
        app: The application behind it.
        limits: Sizes per request class.
        metrics: Shows queued and rejected calls.
        clock: Monotonic seconds.
        rng: Source of the spread of Retry-After.
        refusal: Converts an error to the response of a request.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: ConcurrencyLimits,
        metrics: Metrics,
        clock: Callable[[], float],
        rng: np.random.Generator,
        refusal: Callable[[Request, LeagueError], Response],
    ) -> None:
        self._app, self._limits, self._metrics, self._clock, self._rng = app, limits, metrics, clock, rng
        self._refusal = refusal
        self._limiters: dict[RequestClass, QueueLimiter] = {
            kind: QueueLimiter(limits.running(kind), limits.waiting(kind), clock) for kind in get_args(RequestClass)
        }
        for kind, limiter in self._limiters.items():
            metrics.waiting.labels(kind).set_function(partial(len, limiter.queue))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when its turn comes, or reject it."""
        kind = request_class(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if kind is None:
            await self._app(scope, receive, send)
            return
        # Classes do not share slots, so that slow reads cannot delay results.
        limiter = self._limiters[kind]
        if not await limiter.enter(self._limits.wait_s):
            await self._reject(kind, scope, receive, send)
            return
        entered_s = self._clock()
        try:
            await self._app(scope, receive, send)
        finally:
            limiter.leave(entered_s)

    async def _reject(self, kind: RequestClass, scope: Scope, receive: Receive, send: Send) -> None:
        self._metrics.refused.labels(kind).inc()
        retry_s = self._retry_s(kind)
        rule = f"{self._limits.running(kind)} calls of this kind already run and the queue is full"
        error = BusyError(f"for {scope['method']} {scope['path']}", rule, f"send it again in {retry_s} s")
        error.retry_after_s = retry_s
        await self._refusal(Request(scope), error)(scope, receive, send)

    def _retry_s(self, kind: RequestClass) -> int:
        """Return whole seconds, as the header requires, spread over calls that are rejected at the same time."""
        limits = self._limits
        due_s = min(max(self._limiters[kind].reject(), limits.retry_min_s), limits.retry_max_s)
        return math.ceil(due_s * (1.0 + _SPREAD * self._rng.random()))
