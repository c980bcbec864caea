"""Back-pressure: a call runs, waits its turn in a bounded queue, or is refused at once with the time to come back.

The contract is written down in docs/reference/results-protocol.md.
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
_SPREAD = 0.5  # a refused call comes back after its time, or up to so much of it later


class QueueLimiter:
    """The turns of one lane, first come first served.

    Args:
        running: Most calls at once.
        waiting: Most calls that wait.
        clock: Monotonic seconds.

    Attributes:
        queue: The calls that wait.
    """

    def __init__(self, running: int, waiting: int, clock: Callable[[], float]) -> None:
        self._running, self._most_waiting, self._clock = running, waiting, clock
        self._free = running
        self.queue: deque[asyncio.Future[None]] = deque()
        self._mean_s = 0.0
        self._turned_away = 0

    async def enter(self, wait_s: float) -> bool:
        """Wait for a turn; false where the queue is full, or none came in time. Who has entered must leave."""
        if self._free:
            self._free -= 1
            return True
        if len(self.queue) >= self._most_waiting:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.queue.append(turn)
        try:
            async with asyncio.timeout(wait_s):
                await turn
        except TimeoutError:
            return self._came_in_time(turn)
        except asyncio.CancelledError:
            if self._came_in_time(turn):
                self._pass_on()
            raise
        return True

    def leave(self, entered_s: float) -> None:
        """Let the next call run, after one that had entered at `entered_s`."""
        self._mean_s += _SMOOTHING * (self._clock() - entered_s - self._mean_s)
        self._turned_away = max(0, self._turned_away - 1)
        self._pass_on()

    def refuse(self) -> float:
        """Count a call that is refused; return in how many seconds it could have its turn, behind all before it."""
        self._turned_away += 1
        return (len(self.queue) + self._turned_away) * self._mean_s / self._running

    def _came_in_time(self, turn: "asyncio.Future[None]") -> bool:
        """Stop waiting; true where the turn came before that."""
        if not turn.cancelled():
            return True
        with suppress(ValueError):
            self.queue.remove(turn)
        return False

    def _pass_on(self) -> None:
        while self.queue:
            turn = self.queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class ConcurrencyMiddleware:
    """Middleware that gives every call its turn in its lane.

    Args:
        app: What to protect.
        config: Sizes of the lanes.
        metrics: Counts whom it refuses, and shows how many wait.
        clock: Monotonic seconds.
        rng: Chance of the times to come back.
        refusal: Makes the answer to a request out of the error.
    """

    def __init__(
        self,
        app: ASGIApp,
        config: ConcurrencyLimits,
        metrics: Metrics,
        clock: Callable[[], float],
        rng: np.random.Generator,
        refusal: Callable[[Request, LeagueError], Response],
    ) -> None:
        self._app, self._config, self._metrics, self._clock, self._rng = app, config, metrics, clock, rng
        self._refusal = refusal
        self._lanes: dict[RequestClass, QueueLimiter] = {
            lane: QueueLimiter(config.running(lane), config.waiting(lane), clock) for lane in get_args(RequestClass)
        }
        for lane, turnstile in self._lanes.items():
            metrics.waiting.labels(lane).set_function(partial(len, turnstile.queue))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when its turn comes, or refuse it."""
        lane = request_class(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if lane is None:
            await self._app(scope, receive, send)
            return
        turnstile = self._lanes[lane]
        entered = await turnstile.enter(self._config.wait_s)
        if not entered:
            await self._refuse(lane, scope, receive, send)
            return
        entered_s = self._clock()
        try:
            await self._app(scope, receive, send)
        finally:
            turnstile.leave(entered_s)

    async def _refuse(self, lane: RequestClass, scope: Scope, receive: Receive, send: Send) -> None:
        self._metrics.refused.labels(lane).inc()
        retry_s = self._retry_s(lane)
        rule = f"{self._config.running(lane)} calls of this kind run already and others wait before it"
        error = BusyError(f"for {scope['method']} {scope['path']}", rule, f"send it again in {retry_s} s")
        error.retry_after_s = retry_s
        await self._refusal(Request(scope), error)(scope, receive, send)

    def _retry_s(self, lane: RequestClass) -> int:
        """Return whole seconds, as the header wants them, spread over those who are refused at one moment."""
        config = self._config
        due_s = min(max(self._lanes[lane].refuse(), config.retry_min_s), config.retry_max_s)
        return math.ceil(due_s * (1.0 + _SPREAD * self._rng.random()))
