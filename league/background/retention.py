"""Periodic tasks: delete what is older than the settings allow, once a day.

Every server lets old recordings go, and the rest where `retention_days` is set. What one has taken away the next does
not find.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.operations import retention
from league.services.operations.retention import Outdated
from league.services.replays import service as replays
from league.settings import ReplayConfig

FIRST_S = 600.0
"""A server that is restarted every day prunes all the same, but not while everybody comes back."""

DAY_S = 86400.0
PAUSE_S = 0.05

log = logging.getLogger(__name__)


class RetentionTask(PeriodicTask):
    """Prunes ten minutes after its start and then daily.

    Args:
        database: Whose rows.
        retention_days: Age in days at which they go, > 0.
        clock: Tells the time.
    """

    name = "pruning"

    def __init__(self, database: Database, retention_days: float, clock: Callable[[], datetime]) -> None:
        super().__init__(FIRST_S, DAY_S)
        self._database, self._age, self._clock = database, timedelta(days=retention_days), clock

    def run_once(self) -> None:
        """Take away what is too old by now."""
        now, gone = self._clock(), Outdated()
        for part in retention.prune(self._database, now - self._age, now):
            gone += part
            if self.interrupted(PAUSE_S):
                return
        log.info("pruned %d leases, %d refused results, %d draws", gone.leases, gone.refusals, gone.draws)


class ReplayRetentionTask(PeriodicTask):
    """Lets old recordings go, as often as a `RetentionTask` prunes.

    Args:
        database: Whose recordings.
        config: How long they are kept.
        clock: Tells the time.
    """

    name = "pruning recordings"

    def __init__(self, database: Database, config: ReplayConfig, clock: Callable[[], datetime]) -> None:
        super().__init__(FIRST_S, DAY_S)
        self._database, self._config, self._clock = database, config, clock

    def run_once(self) -> None:
        """Let go what is too old by now."""
        gone = 0
        for part in replays.prune(self._database, self._config, self._clock()):
            gone += part
            if self.interrupted(PAUSE_S):
                return
        log.info("pruned %d recordings", gone)
