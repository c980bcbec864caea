"""Periodic task: settle expired leases.

It runs in every API process. A sweep consists of many short transactions with pauses, so that requests never wait for
it.
"""

from collections.abc import Callable
from datetime import datetime

from league.api.metrics import Metrics
from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.matchmaking import leases
from league.settings import Settings

LEASES_PER_TRANSACTION = 500
PAUSE_S = 0.05


class ExpireLeasesTask(PeriodicTask):
    """Settles expired leases every `lease_sweep_s`."""

    name = "sweeping leases"

    def __init__(self, database: Database, settings: Settings, metrics: Metrics, clock: Callable[[], datetime]) -> None:
        super().__init__(settings.lease_sweep_s, settings.lease_sweep_s)
        self._database, self._metrics, self._clock = database, metrics, clock

    def run_once(self) -> None:
        """Settle all leases that have expired."""
        # The pause between two batches lets other writers in, which matters with SQLite's single one.
        while not self.interrupted(PAUSE_S):
            with self._database.write() as session:
                settled = leases.sweep(session, self._clock(), LEASES_PER_TRANSACTION)
            for state, count in settled.items():
                self._metrics.settled.labels(state).inc(count)
            # A full batch may have left expired leases behind.
            if settled.total() < LEASES_PER_TRANSACTION:
                return
