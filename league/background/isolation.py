"""Isolation of failures: a failing environment does not block the others."""

import logging
from collections.abc import Callable, Hashable

PAUSE_MAX_S = 60.0

log = logging.getLogger(__name__)


class Isolation:
    """Attempts of one task with a separate back-off per environment.

    A failing environment is skipped for a time that doubles with each further failure, up to a minute. Every failure is
    one log line, and its traceback is logged at level DEBUG.

    Args:
        task: Name of the task in the log.
        first_s: Pause after the first failure, in seconds.
        monotonic: Monotonic clock in seconds.
    """

    def __init__(self, task: str, first_s: float, monotonic: Callable[[], float]) -> None:
        self._task, self._first_s, self._monotonic = task, first_s, monotonic
        self._pauses: dict[Hashable, tuple[float, float]] = {}

    def attempt(self, environment: str, action: Callable[[], object]) -> bool:
        """Run the action unless the environment is in back-off; return False if it fails."""
        pause_s, due = self._pauses.get(environment, (0.0, float("-inf")))
        if self._monotonic() < due:
            # Not a new failure: the caller has already reacted to the last one, for example by releasing its lease.
            return True
        try:
            action()
        except Exception as error:
            # Back-off limits the log to one line per minute for an environment that fails permanently.
            pause_s = min(PAUSE_MAX_S, max(self._first_s, 2.0 * pause_s))
            self._pauses[environment] = pause_s, self._monotonic() + pause_s
            cause = f"{type(error).__name__}: {error}".partition("\n")[0]
            log.error("%s of %s failed (%s); retrying in %g s", self._task, environment, cause, pause_s)  # noqa: TRY400 - one line
            log.debug("%s of %s", self._task, environment, exc_info=error)
            return False
        self._pauses.pop(environment, None)
        return True
