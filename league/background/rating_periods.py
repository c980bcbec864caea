"""Periodic task: close due rating periods.

Every server has it. The database elects which of them closes an environment's periods, so that it does not
matter how many there are, and another takes over within a term where that one is gone.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from uuid import uuid4

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
    """Looks every `aggregation_interval_s` whether a period is due.

    Args:
        database: Of the league.
        settings: Likewise.
        clock: The time.
        timepiece: Monotonic seconds.
    """

    name = "closing rating periods"

    def __init__(
        self,
        database: Database,
        settings: Settings,
        clock: Callable[[], datetime],
        timepiece: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(settings.aggregation_interval_s, settings.aggregation_interval_s)
        self._database, self._settings, self._clock = database, settings, clock
        self._isolation = Isolation("closing the rating period", settings.aggregation_interval_s, timepiece)
        self._left_behind = Isolation("rating after a quarantine", settings.aggregation_interval_s, timepiece)
        self._candidate = uuid4().hex
        self._in_office = False

    def stop(self) -> None:
        """End, after a period that is just being closed, and leave the office to others."""
        super().stop()
        self._resign()

    def run_once(self) -> None:
        """Close the period of each environment where one is due and this process is elected.

        Ratings that another process left behind are brought up to date first. Where something fails, the office is
        left to a sounder process. An environment whose periods cannot be closed holds up no other. The one whose last
        period is the newest comes first: one that ends this very process each time is then the last.
        """
        self._left_behind.attempt("all environments", self._rate_left_behind)
        try:
            with self._database.read() as session:
                environments = period_queries.by_last_closed(session)
        except Exception:
            self._resign()
            raise
        for environment in environments:
            if not self._isolation.attempt(environment, partial(self._close_if_due, environment)):
                self._resign(environment)

    def _rate_left_behind(self) -> None:
        quarantine.rate_left_behind(self._database, self._clock())

    def _close_if_due(self, environment: str) -> None:
        now = self._clock()
        if closing.due(self._database, self._settings, environment, now) and self._elected(environment, now):
            period = closing.close_if_due(self._database, self._settings, environment, now)
            if period is not None:
                log.info("closed period %d of %s: %d matches", period.number, environment, period.matches)

    def _elected(self, environment: str, now: datetime) -> bool:
        with self._database.write() as session:
            term_s = self._settings.aggregation_term_s
            elected = leader_election.acquire(session, _office(environment), self._candidate, now, term_s)
        self._in_office |= elected
        return elected

    def _resign(self, environment: str | None = None) -> None:
        """Leave the office for an environment to others, or every office."""
        if not self._in_office:
            return
        try:
            with self._database.write() as session:
                leader_election.release(session, self._candidate, None if environment is None else _office(environment))
        except Exception as error:  # noqa: BLE001 - the term ends in any case
            term_s = self._settings.aggregation_term_s
            log.error("resigning failed (%s); another process takes over within %g s", error, term_s)  # noqa: TRY400
        else:
            self._in_office = environment is not None


def _office(environment: str) -> str:
    return f"periods of {environment}"
