"""Periodic task: behaviour profiles and regression alarms after a rating period."""

import time
from collections.abc import Callable
from datetime import datetime
from functools import partial

from league.background.isolation import Isolation
from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.environments import lookup as environments
from league.services.leaderboard import regressions
from league.services.population.learner_games import LearnerGamesCache
from league.services.promotion import behaviour_sums
from league.services.rating_periods import queries as period_queries
from league.settings import Settings


class AnalysisTask(PeriodicTask):
    """Looks every `aggregation_interval_s` at what is new in each environment.

    Every server does; what one of them has written the others do not write again.
    """

    name = "looking at rating periods"

    def __init__(
        self,
        database: Database,
        settings: Settings,
        clock: Callable[[], datetime],
        timepiece: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(settings.aggregation_interval_s, settings.aggregation_interval_s)
        self._database, self._settings, self._clock = database, settings, clock
        self._isolation = Isolation(self.name, settings.aggregation_interval_s, timepiece)
        self._recollection = LearnerGamesCache()
        self._seen: dict[str, int] = {}

    def run_once(self) -> None:
        """Look at what is new; an environment where that fails holds up no other."""
        with self._database.read() as session:
            newest = {each: period_queries.newest(session, each) for each in environments.names(session)}
        for environment, period in newest.items():
            self._isolation.attempt(
                environment, partial(self._look, environment, None if period is None else period.id)
            )

    def _look(self, environment: str, period_id: int | None) -> None:
        behaviour_sums.follow(self._database, environment)
        if period_id is not None and self._seen.get(environment) != period_id:
            regressions.look(self._database, self._settings, self._recollection, environment, self._clock())
            self._seen[environment] = period_id
