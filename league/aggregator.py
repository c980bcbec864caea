"""The thread that closes due rating periods.

Every API process runs one. The database elects which of them closes an environment's periods, so that it does not
matter how many there are, and another takes over within a term where that one is gone.
"""

import logging
import threading
from datetime import UTC, datetime
from uuid import uuid4

from league.config import Settings
from league.db.engine import Database
from league.services import election, learners, periods, quarantines

log = logging.getLogger(__name__)


class Aggregator:
    """Looks every `aggregation_interval_s` whether a period is due, from `start` to `stop`."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._name = uuid4().hex
        self._in_office = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aggregator", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after a period that is just being closed, and leave the office to others."""
        self._stopping.set()
        self._thread.join()

    def close_due(self, now: datetime) -> None:
        """Close the period of each environment where one is due and this process is elected.

        Ratings that another process left behind are brought up to date first.
        """
        quarantines.rate_left_behind(self._database, now)
        with self._database.read() as session:
            environments = learners.environments(session)
        for environment in environments:
            if periods.due(self._database, self._settings, environment, now) and self._elected(environment, now):
                period = periods.close_if_due(self._database, self._settings, environment, now)
                if period is not None:
                    log.info("closed period %d of %s: %d matches", period.number, environment, period.matches)

    def _run(self) -> None:
        while not self._stopping.wait(self._settings.aggregation_interval_s):
            try:
                self.close_due(datetime.now(UTC))
            except Exception:  # the next round tries again, whatever it was; perhaps that of a sounder process
                log.exception("closing rating periods failed; trying again")
                self._resign()
        self._resign()

    def _elected(self, environment: str, now: datetime) -> bool:
        with self._database.write() as session:
            term_s = self._settings.aggregation_term_s
            elected = election.stand(session, f"periods of {environment}", self._name, now, term_s)
        self._in_office |= elected
        return elected

    def _resign(self) -> None:
        """Leave every office to others."""
        if not self._in_office:
            return
        try:
            with self._database.write() as session:
                election.resign(session, self._name)
        except Exception:
            log.exception("resigning failed; another process takes over within %g s", self._settings.aggregation_term_s)
        else:
            self._in_office = False
