"""Periodic tasks: delete old rows once a day.

Old recordings are always deleted, other rows if `retention_days` is set. The tasks run in every background process and
are idempotent.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.operations import retention
from league.services.operations.retention import PrunedCounts
from league.services.replays.service import ReplayService

FIRST_S = 600.0
"""Delay of the first run: also prunes a server that restarts daily, but not while workers reconnect."""

DAY_S = 86400.0
PAUSE_S = 0.05

log = logging.getLogger(__name__)


class RetentionTask(PeriodicTask):
    """Prunes ten minutes after its start and then daily.

    Args:
        database: Database of the league.
        retention_days: Maximum age of rows in days, > 0.
        clock: Returns the time.
    """

    name = "pruning"

    def __init__(self, database: Database, retention_days: float, clock: Callable[[], datetime]) -> None:
        super().__init__(FIRST_S, DAY_S)
        self._database, self._age, self._clock = database, timedelta(days=retention_days), clock

    def run_once(self) -> None:
        """Delete rows that are too old."""
        now, deleted = self._clock(), PrunedCounts()
        for part in retention.prune(self._database, now - self._age, now):
            deleted += part
            # The pause between two transactions lets other writers in, which matters with SQLite's single one.
            if self.interrupted(PAUSE_S):
                return
        log.info(
            "pruned %d leases, %d rejected results, %d distributions", deleted.leases, deleted.refusals, deleted.draws
        )


class ReplayRetentionTask(PeriodicTask):
    """Deletes old recordings with the schedule of `RetentionTask`.

    Args:
        replays: Recordings of the league.
        clock: Returns the time.
    """

    name = "pruning recordings"

    def __init__(self, replays: ReplayService, clock: Callable[[], datetime]) -> None:
        super().__init__(FIRST_S, DAY_S)
        self._replays, self._clock = replays, clock

    def run_once(self) -> None:
        """Delete recordings that are too old."""
        deleted = 0
        for part in self._replays.prune(self._clock()):
            deleted += part
            if self.interrupted(PAUSE_S):
                return
        log.info("pruned %d recordings", deleted)
