"""Periodic task: regression alarms after a rating period."""

import time
from collections.abc import Callable
from datetime import datetime
from functools import partial

from league.background.isolation import Isolation
from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.environments import lookup as environments
from league.services.leaderboard import regressions
from league.services.rating_periods import queries as period_queries
from league.settings import Settings


class AnalysisTask(PeriodicTask):
    """Analyses new rating periods of each environment every `aggregation_interval_s`.

    It runs in every background process and is idempotent.
    """

    name = "analysing rating periods"

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
        self._analysed: dict[str, int] = {}

    def run_once(self) -> None:
        """Analyse new periods; a failure in one environment does not block the others."""
        with self._database.read() as session:
            newest = {each: period_queries.newest(session, each) for each in environments.names(session)}
        for environment, period in newest.items():
            self._isolation.attempt(
                environment, partial(self._analyse, environment, None if period is None else period.id)
            )

    def _analyse(self, environment: str, period_id: int | None) -> None:
        if period_id is not None and self._analysed.get(environment) != period_id:
            regressions.update_alarms(self._database, self._settings, environment, self._clock())
            self._analysed[environment] = period_id
