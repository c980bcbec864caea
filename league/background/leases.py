"""Periodic task: settle leases that have ended.

Every API process has it; each takes what no other has taken. Requests never wait for it: a sweep is many short
transactions, with room between them for others.
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
    """Looks every `lease_sweep_s` for leases that have ended."""

    name = "sweeping leases"

    def __init__(self, database: Database, settings: Settings, metrics: Metrics, clock: Callable[[], datetime]) -> None:
        super().__init__(settings.lease_sweep_s, settings.lease_sweep_s)
        self._database, self._metrics, self._clock = database, metrics, clock

    def run_once(self) -> None:
        """Settle all that have ended by now."""
        while not self.interrupted(PAUSE_S):
            with self._database.write() as session:
                settled = leases.sweep(session, self._clock(), LEASES_PER_TRANSACTION)
            for state, count in settled.items():
                self._metrics.settled.labels(state).inc(count)
            if settled.total() < LEASES_PER_TRANSACTION:
                return
