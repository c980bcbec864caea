"""The thread that settles leases which have ended.

Every API process runs one; each takes what no other has taken. Requests never wait for it: a sweep is many short
transactions, with room between them for others.
"""

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from league.api.metrics import Metrics
from league.config import Settings
from league.db.engine import Database
from league.services import leases

LEASES_PER_TRANSACTION = 500
PAUSE_S = 0.05

log = logging.getLogger(__name__)


class Sweeper:
    """Looks every `lease_sweep_s` for leases that have ended, from `start` to `stop`."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics, clock: Callable[[], datetime]) -> None:
        self._database, self._settings, self._metrics, self._clock = database, settings, metrics, clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the transaction that is just under way."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._settings.lease_sweep_s):
            try:
                self._sweep()
            except Exception:  # the next round tries again, whatever it was
                log.exception("sweeping leases failed; trying again")

    def _sweep(self) -> None:
        while not self._stopping.wait(PAUSE_S):
            with self._database.write() as session:
                settled = leases.sweep(session, self._clock(), LEASES_PER_TRANSACTION)
            for state, count in settled.items():
                self._metrics.settled.labels(state).inc(count)
            if settled.total() < LEASES_PER_TRANSACTION:
                return
