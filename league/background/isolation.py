"""Isolation of failures: an environment whose work fails does not hold up the others."""

import logging
from collections.abc import Callable, Hashable

PAUSE_MAX_S = 60.0

log = logging.getLogger(__name__)


class Isolation:
    """Attempts of one task, with a back-off of its own for each environment.

    An environment that fails is left out for a time that doubles with each further failure, up to a minute. Every
    failure is one line of the log; its traceback is logged at level DEBUG.

    Args:
        task: What is done, for the log.
        first_s: Pause after the first failure, in seconds.
        timepiece: Monotonic seconds.
    """

    def __init__(self, task: str, first_s: float, timepiece: Callable[[], float]) -> None:
        self._task, self._first_s, self._timepiece = task, first_s, timepiece
        self._pauses: dict[Hashable, tuple[float, float]] = {}

    def attempt(self, environment: str, action: Callable[[], object]) -> bool:
        """Do the task for an environment, unless it failed lately; false where it fails."""
        pause_s, due = self._pauses.get(environment, (0.0, float("-inf")))
        if self._timepiece() < due:
            return True
        try:
            action()
        except Exception as error:
            pause_s = min(PAUSE_MAX_S, max(self._first_s, 2.0 * pause_s))
            self._pauses[environment] = pause_s, self._timepiece() + pause_s
            cause = f"{type(error).__name__}: {error}".partition("\n")[0]
            log.error("%s of %s failed (%s); trying again in %g s", self._task, environment, cause, pause_s)  # noqa: TRY400 - one line
            log.debug("%s of %s", self._task, environment, exc_info=error)
            return False
        self._pauses.pop(environment, None)
        return True
