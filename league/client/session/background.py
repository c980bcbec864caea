"""Thread that makes a session's calls again until they succeed."""

import logging
import random
import threading
import time
from collections.abc import Callable

from league.errors import BusyError, LeagueError, LeagueUnreachable, RateLimitedError, UnknownWorkerError

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 30.0
"""Longest pause after the first failed round of calls, and after many (exponential back-off with full jitter)."""

SERVER_FAULT = 500
REFUSED_FOR_NOW = (400, 401, 403, 404, 408)
"""Rejections that do not depend on the content of the call, such as that of an expired token."""

logger = logging.getLogger(__name__)


def is_transient(error: LeagueError) -> bool:
    """Return whether the same call may succeed later without a change by the user."""
    passing = isinstance(error, LeagueUnreachable | BusyError | RateLimitedError | UnknownWorkerError)
    return passing or error.status >= SERVER_FAULT


def may_succeed_later(error: LeagueError) -> bool:
    """Return whether to store the content of the call and send it again."""
    return is_transient(error) or error.status in REFUSED_FOR_NOW


class Background(threading.Thread):
    """Runs a function again and again, with a back-off after failures.

    Args:
        changed: Condition that ends a pause early when it is notified.
        work: Makes the calls that are due, and returns the seconds until the next ones.
        fail: Receives the error of a failed round, or None after a successful one.
        recover: Registers the worker again, if the league does not know it any more.
    """

    def __init__(
        self,
        changed: threading.Condition,
        work: Callable[[], float],
        fail: Callable[[Exception | None], None],
        recover: Callable[[], None],
    ) -> None:
        super().__init__(name="league-session", daemon=True)
        self._changed, self._work, self._fail, self._recover = changed, work, fail, recover
        self._ending = False
        self._unknown = False
        self._failures = 0
        self._rng = random.Random()  # noqa: S311 - jitter

    def end(self, timeout_s: float) -> bool:
        """End the thread after its current call; false if the call takes longer than this."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self.join(timeout_s)
        return not self.is_alive()

    def run(self) -> None:
        """Work until `end`."""
        while not self._ending:
            wait_s = self._round()
            deadline = time.monotonic() + wait_s
            with self._changed:
                while not self._ending and (left_s := deadline - time.monotonic()) > 0.0:
                    if self._changed.wait(left_s) and not self._failures:  # a back-off lasts to its end
                        break

    def _round(self) -> float:
        try:
            if self._unknown:
                self._recover()
                self._unknown = False
            wait_s = self._work()
        except (LeagueError, OSError) as error:
            self._unknown = self._unknown or isinstance(error, UnknownWorkerError)
            self._failures += 1
            if self._failures == 1:
                logger.warning("the session retries after an error: %s", error)
            self._fail(error)
            # Full jitter: clients that failed together must not come back together.
            # The exponent is bounded, because the power would overflow during a long outage.
            return self._rng.random() * min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._failures, 16))
        self._failures = 0
        self._fail(None)
        return wait_s
