"""The duty to close due rating periods.

Every server has it. The database elects which of them closes an environment's periods, so that it does not
matter how many there are, and another takes over within a term where that one is gone.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from uuid import uuid4

from league.config import Settings
from league.db.engine import Database
from league.duty import Duty
from league.services import election, learners, periods, quarantines

log = logging.getLogger(__name__)


class Aggregator(Duty):
    """Looks every `aggregation_interval_s` whether a period is due."""

    name = "closing rating periods"

    def __init__(self, database: Database, settings: Settings, clock: Callable[[], datetime]) -> None:
        super().__init__(settings.aggregation_interval_s, settings.aggregation_interval_s)
        self._database, self._settings, self._clock = database, settings, clock
        self._candidate = uuid4().hex
        self._in_office = False

    def stop(self) -> None:
        """End, after a period that is just being closed, and leave the office to others."""
        super().stop()
        self._resign()

    def perform(self) -> None:
        """Close what is due; where that fails, leave the office to a sounder process."""
        try:
            self._close_all_due()
        except Exception:
            self._resign()
            raise

    def _close_all_due(self) -> None:
        """Close the period of each environment where one is due and this process is elected.

        Ratings that another process left behind are brought up to date first.
        """
        quarantines.rate_left_behind(self._database, self._clock())
        with self._database.read() as session:
            environments = learners.environments(session)
        for environment in environments:
            self._close_if_due(environment, self._clock())

    def _close_if_due(self, environment: str, now: datetime) -> None:
        if periods.due(self._database, self._settings, environment, now) and self._elected(environment, now):
            period = periods.close_if_due(self._database, self._settings, environment, now)
            if period is not None:
                log.info("closed period %d of %s: %d matches", period.number, environment, period.matches)

    def _elected(self, environment: str, now: datetime) -> bool:
        with self._database.write() as session:
            term_s = self._settings.aggregation_term_s
            elected = election.stand(session, f"periods of {environment}", self._candidate, now, term_s)
        self._in_office |= elected
        return elected

    def _resign(self) -> None:
        """Leave every office to others."""
        if not self._in_office:
            return
        try:
            with self._database.write() as session:
                election.resign(session, self._candidate)
        except Exception:
            log.exception("resigning failed; another process takes over within %g s", self._settings.aggregation_term_s)
        else:
            self._in_office = False
