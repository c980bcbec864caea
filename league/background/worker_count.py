"""Periodic task: count the workers, which sets their heartbeat interval.

Every API process has it: what one knows of them, all do.
"""

from collections.abc import Callable
from datetime import datetime

from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.workers import service as workers
from league.services.workers.polling import WorkerCount

EVERY_S = 15.0


class WorkerCountTask(PeriodicTask):
    """Counts workers that live, again and again."""

    name = "counting workers"

    def __init__(
        self, database: Database, census: WorkerCount, heartbeat_s: float, clock: Callable[[], datetime]
    ) -> None:
        super().__init__(EVERY_S, EVERY_S)
        self._database, self._census, self._heartbeat_s, self._clock = database, census, heartbeat_s, clock

    def run_once(self) -> None:
        """Count them."""
        with self._database.autocommit_read() as session:
            self._census.present = workers.present(session, self._heartbeat_s, self._clock())
