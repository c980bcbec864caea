"""Periodic task: count the workers, which determines their heartbeat interval; runs in every API process."""

from collections.abc import Callable
from datetime import datetime

from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.workers import service as workers
from league.services.workers.polling import WorkerCount

EVERY_S = 15.0


class WorkerCountTask(PeriodicTask):
    """Counts live workers."""

    name = "counting workers"

    def __init__(
        self, database: Database, worker_count: WorkerCount, heartbeat_s: float, clock: Callable[[], datetime]
    ) -> None:
        super().__init__(EVERY_S, EVERY_S)
        self._database, self._worker_count, self._heartbeat_s, self._clock = database, worker_count, heartbeat_s, clock

    def run_once(self) -> None:
        """Update the worker count."""
        with self._database.autocommit_read() as session:
            self._worker_count.present = workers.present(session, self._heartbeat_s, self._clock())
