"""Back-off: how long a client waits for a server that asks it to come back later."""

import math
import random
from collections.abc import Callable

from league.errors import LeagueError, from_problem

_SPREAD = 0.5  # clients that were told the same time come back up to so much of it later
_LEAST_S = 1.0  # a proxy may write Retry-After: 0; without a pause a call would be repeated for ever


class RetryGate:
    """When which lane of the server may be called again.

    Args:
        limit_s: Longest that one call waits altogether, >= 0.
        clock: Monotonic seconds.
        pause: Sleeps so many seconds.
        rng: Chance of the waits.
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
        """Return until when a call that begins now may wait."""
        return self._clock() + self._limit_s

    def note(self, lane: str | None, refusal: LeagueError) -> None:
        """Remember that the server refused a call, and when it asked to come back."""
        wait_s = max(_LEAST_S, refusal.retry_after_s or 0.0) * (1.0 + _SPREAD * self._rng.random())
        self._refused[lane] = self._clock() + wait_s, refusal

    def await_turn(self, lane: str | None, until: float) -> None:
        """Sleep until the lane may be called again.

        Raises:
            LeagueError: As the server refused the last call, where its time comes later than the call can wait.
        """
        if lane not in self._refused:
            return
        due, refusal = self._refused[lane]
        wait_s = due - self._clock()
        if wait_s <= 0.0:
            return
        if due > until:
            error = from_problem(refusal.problem())
            error.retry_after_s = math.ceil(wait_s)
            raise error
        self._pause(wait_s)
