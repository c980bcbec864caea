"""Periodic task: fit the pair model of each environment once its rating matches have grown enough."""

import logging

from league.background.new_period_task import NewPeriodTask
from league.services.ratings import pair_predictions

log = logging.getLogger(__name__)


class PairModelTask(NewPeriodTask):
    """Fits pair models after new rating periods.

    A fit takes seconds in a league of thousands of players, so no transaction is open meanwhile.
    """

    name = "fitting pair models"

    def process(self, environment: str) -> None:
        """Fit and store the pair model of an environment if it is due."""
        config = self._settings.refit
        with self._database.read() as session:
            given = pair_predictions.read_input(session, environment, config.growth)
        if given is None or not given.history.results.games.size:
            return
        fitted = pair_predictions.fit(given, config, self._clock())
        with self._database.write() as session:
            pair_predictions.store(session, fitted)
        log.debug("%s: pair model with %d cyclic components", environment, fitted.components)
