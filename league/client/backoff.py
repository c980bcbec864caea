"""Back-off of a client after 429 or 503 with Retry-After."""

import math
import random
import time
from collections.abc import Callable

from league.errors import LeagueError, from_problem

_JITTER = 0.5  # maximum share of Retry-After that is added, so that clients spread
_MIN_WAIT_S = 1.0  # a proxy may send Retry-After: 0, which would cause a busy loop


class RetryGate:
    """Time of the next allowed call per request class.

    Args:
        limit_s: Maximum total wait of one call in seconds, >= 0.
        clock: Monotonic clock in seconds.
        pause: Sleeps the given number of seconds.
        rng: Source of the jitter.
    """

    def __init__(
        self,
        limit_s: float,
        clock: Callable[[], float],
        pause: Callable[[float], None],
        rng: random.Random,
    ) -> None:
        self._limit_s, self._clock, self._pause, self._rng = limit_s, clock, pause, rng
        self._refused: dict[str | None, tuple[float, LeagueError]] = {}

    def begin(self) -> float:
        """Return the deadline of a call that begins now."""
        return self._clock() + self._limit_s

    def record(self, request_class: str | None, refusal: LeagueError) -> None:
        """Record a rejected call and its Retry-After."""
        # Only later than asked: earlier calls would be rejected again.
        wait_s = max(_MIN_WAIT_S, refusal.retry_after_s or 0.0) * (1.0 + _JITTER * self._rng.random())
        self._refused[request_class] = self._clock() + wait_s, refusal

    def wait_s(self, request_class: str | None, until: float) -> float:
        """Return the seconds until calls of this request class are allowed.

        Raises:
            LeagueError: The last rejection, if the wait would exceed the deadline.
        """
        if request_class not in self._refused:
            return 0.0
        due, refusal = self._refused[request_class]
        wait_s = max(0.0, due - self._clock())
        # Fail at once instead of sleeping until a deadline at which the call could not succeed.
        if wait_s > 0.0 and due > until:
            error = from_problem(refusal.problem())
            error.retry_after_s = math.ceil(wait_s)
            raise error
        return wait_s

    def await_turn(self, request_class: str | None, until: float) -> None:
        """Sleep until calls of this request class are allowed; see `wait_s`."""
        wait_s = self.wait_s(request_class, until)
        if wait_s > 0.0:
            self._pause(wait_s)


def make_retry_gate(seconds: float) -> RetryGate:
    """Return a back-off with a maximum wait per call in seconds; 0 never waits."""
    return RetryGate(seconds, time.monotonic, time.sleep, random.Random())  # noqa: S311 - jitter
