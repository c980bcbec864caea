"""Periodic task: record workers that stopped sending heartbeats; idempotent, so it runs in every background process."""

import logging
from collections.abc import Callable
from datetime import datetime

from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.workers import lost
from league.settings import MISSED_HEARTBEATS

EVERY_S = 15.0

log = logging.getLogger(__name__)


class LostWorkerTask(PeriodicTask):
    """Records lost workers.

    Args:
        database: Database of the league.
        heartbeat_s: Longest interval between heartbeats, in seconds.
        clock: Returns the time.
    """

    name = "recording lost workers"

    def __init__(self, database: Database, heartbeat_s: float, clock: Callable[[], datetime]) -> None:
        # The first run waits, because no worker could send a heartbeat while the league was down.
        super().__init__(MISSED_HEARTBEATS * heartbeat_s, EVERY_S)
        self._database, self._heartbeat_s, self._clock = database, heartbeat_s, clock

    def run_once(self) -> None:
        """Record the workers that are newly lost."""
        with self._database.read() as session:
            if not lost.any_change(session, self._heartbeat_s, self._clock()):
                return
        with self._database.write() as session:
            names = lost.record(session, self._heartbeat_s, self._clock())
        for name in names:
            log.warning("worker %s is lost: it sends no heartbeats", name)
