"""The thread that closes due rating periods.

Every API process runs one; a database lock elects who closes a period, so that it does not matter how many there are.
"""

import logging
import threading
from datetime import UTC, datetime

from league.config import Settings
from league.db.engine import Database
from league.services import learners, periods

log = logging.getLogger(__name__)


class Aggregator:
    """Looks every `aggregation_interval_s` whether a period is due, from `start` to `stop`."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aggregator", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after a period that is just being closed."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._settings.aggregation_interval_s):
            try:
                self._close_due()
            except Exception:  # the next round tries again, whatever it was
                log.exception("closing rating periods failed; trying again")

    def _close_due(self) -> None:
        with self._database.read() as session:
            environments = learners.environments(session)
        for environment in environments:
            period = periods.close_if_due(self._database, self._settings, environment, datetime.now(UTC))
            if period is not None:
                log.info("closed period %d of %s: %d matches", period.number, environment, period.matches)
