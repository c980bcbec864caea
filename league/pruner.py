"""The thread that lets a league forget what is older than its settings say, once a day.

Every API process runs one where `retention_days` is set. What one has taken away the next does not find.
"""

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from league.config import Settings
from league.db.engine import Database
from league.services import retention
from league.services.retention import Outdated

FIRST_S = 600.0
"""A server that is restarted every day prunes all the same, but not while everybody comes back."""

DAY_S = 86400.0
PAUSE_S = 0.05

log = logging.getLogger(__name__)


class Pruner:
    """Prunes ten minutes after `start` and then daily, until `stop`; does nothing where everything is kept."""

    def __init__(self, database: Database, settings: Settings, clock: Callable[[], datetime]) -> None:
        self._database, self._days, self._clock = database, settings.retention_days, clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pruner", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the transaction that is just under way."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        wait_s = FIRST_S
        while self._days is not None and not self._stopping.wait(wait_s):
            try:
                self._prune(timedelta(days=self._days))
            except Exception:  # tomorrow tries again, whatever it was
                log.exception("pruning failed; trying again tomorrow")
            wait_s = DAY_S

    def _prune(self, age: timedelta) -> None:
        now, gone = self._clock(), Outdated()
        for part in retention.prune(self._database, now - age, now):
            gone += part
            if self._stopping.wait(PAUSE_S):
                return
        log.info("pruned %d leases, %d refused results, %d draws", gone.leases, gone.refusals, gone.draws)
