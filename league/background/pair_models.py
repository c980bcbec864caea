"""Periodic task: fit the pair model of each environment once its rating matches have grown enough."""

import logging
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial

from league.background.isolation import Isolation
from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.environments import lookup as environments
from league.services.rating_periods import queries as period_queries
from league.services.ratings import pair_predictions
from league.settings import Settings

log = logging.getLogger(__name__)


class PairModelTask(PeriodicTask):
    """Fits pair models every `aggregation_interval_s`, between rating periods.

    It runs in every background process and is idempotent. A fit takes seconds in a league of thousands of players, so
    no transaction is open meanwhile.
    """

    name = "fitting pair models"

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
        self._seen: dict[str, int] = {}

    def run_once(self) -> None:
        """Fit where it is due; a failure in one environment does not block the others."""
        with self._database.read() as session:
            newest = {each: period_queries.newest(session, each) for each in environments.names(session)}
        for environment, period in newest.items():
            if period is not None and self._seen.get(environment) != period.id:
                self._isolation.attempt(environment, partial(self._fit, environment, period.id))

    def _fit(self, environment: str, period_id: int) -> None:
        config = self._settings.refit
        with self._database.read() as session:
            given = pair_predictions.read_input(session, environment, config.growth)
        if given is not None and given.history.results.games.size:
            fitted = pair_predictions.fit(given, config, self._clock())
            with self._database.write() as session:
                pair_predictions.store(session, fitted)
            log.debug("%s: pair model with %d cyclic components", environment, fitted.components)
        self._seen[environment] = period_id
