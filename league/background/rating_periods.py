"""Periodic task: close due rating periods.

It runs in every background process. A leader election per environment decides which process closes its periods. If the
leader dies, another process takes over within one term.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial

from league.background import leader_election
from league.background.isolation import Isolation
from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.rating_periods import closing
from league.services.rating_periods import queries as period_queries
from league.services.trust import quarantine
from league.settings import Settings

log = logging.getLogger(__name__)


class RatingPeriodTask(PeriodicTask):
    """Closes due periods every `aggregation_interval_s`.

    Args:
        database: Database of the league.
        settings: Settings of the league.
        clock: Returns the time.
        monotonic: Monotonic clock in seconds.
    """

    name = "closing rating periods"

    def __init__(
        self,
        database: Database,
        settings: Settings,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(settings.aggregation_interval_s, settings.aggregation_interval_s)
        self._database, self._settings, self._clock = database, settings, clock
        self._isolation = Isolation("closing the rating period", settings.aggregation_interval_s, monotonic)
        self._pending_ratings = Isolation("rating after a quarantine", settings.aggregation_interval_s, monotonic)
        self._leadership = leader_election.Candidate(database, settings.aggregation_term_s)

    def stop(self) -> None:
        """Stop after the period that is being closed, and release all leader leases."""
        super().stop()
        # After the thread has ended, because it could acquire another lease.
        self._leadership.release()

    def run_once(self) -> None:
        """Close due periods of the environments for which this process is the leader.

        Ratings that an interrupted quarantine left out of date are recomputed first. If closing fails, the lease is
        released to another process, and other environments continue. Environments are ordered by their newest period,
        newest first, so that one that crashes the process each time comes last.
        """
        self._pending_ratings.attempt("all environments", self._rate_pending)
        try:
            with self._database.read() as session:
                environments = period_queries.by_last_closed(session)
        except Exception:
            self._leadership.release()
            raise
        for environment in environments:
            if not self._isolation.attempt(environment, partial(self._close_if_due, environment)):
                self._leadership.release(_task_name(environment))

    def _rate_pending(self) -> None:
        quarantine.finish_pending_ratings(self._database, self._clock())

    def _close_if_due(self, environment: str) -> None:
        now = self._clock()
        # The read-only check comes first, so that idle environments cost no write transaction for the election.
        if not closing.due(self._database, self._settings, environment, now):
            return
        if self._leadership.acquire(_task_name(environment), now):
            period = closing.close_if_due(self._database, self._settings, environment, now)
            if period is not None:
                log.info("closed period %d of %s: %d matches", period.number, environment, period.matches)


def _task_name(environment: str) -> str:
    return f"periods of {environment}"
