"""Base of periodic tasks that process each environment's newest rating period once."""

import time
from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime
from functools import partial

from league.background.isolation import Isolation
from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.environments import lookup as environments
from league.services.rating_periods import queries as period_queries
from league.settings import Settings


class NewPeriodTask(PeriodicTask):
    """Processes new rating periods of each environment every `aggregation_interval_s`.

    It runs in every background process, so `process` must be idempotent.

    Args:
        database: Database of the league.
        settings: Settings of the league.
        clock: Returns the time.
        monotonic: Monotonic clock in seconds.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(settings.aggregation_interval_s, settings.aggregation_interval_s)
        self._database, self._settings, self._clock = database, settings, clock
        self._isolation = Isolation(self.name, settings.aggregation_interval_s, monotonic)
        self._processed: dict[str, int] = {}

    def run_once(self) -> None:
        """Process new periods; a failure in one environment does not block the others."""
        with self._database.read() as session:
            newest = {each: period_queries.newest(session, each) for each in environments.names(session)}
        for environment, period in newest.items():
            if period is not None and self._processed.get(environment) != period.id:
                self._isolation.attempt(environment, partial(self._process_once, environment, period.id))

    def _process_once(self, environment: str, period_id: int) -> None:
        self.process(environment)
        # Only after success, so that a failure is retried. After a restart the newest periods are processed once more.
        self._processed[environment] = period_id

    @abstractmethod
    def process(self, environment: str) -> None:
        """Process an environment's newest period; after an error it is called again."""
