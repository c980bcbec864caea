"""The duty to look after each rating period whether a main learner lost what it could."""

from collections.abc import Callable
from datetime import datetime

from league.config import Settings
from league.db.engine import Database
from league.duty import Duty
from league.services import learners, periods, regressions


class Lookout(Duty):
    """Looks every `aggregation_interval_s` at the environments that closed a period since the last time.

    Every API process does; what one of them has written the others do not write again.
    """

    name = "looking for regressions"

    def __init__(self, database: Database, settings: Settings, clock: Callable[[], datetime]) -> None:
        super().__init__(settings.aggregation_interval_s, settings.aggregation_interval_s)
        self._database, self._settings, self._clock = database, settings, clock
        self._seen: dict[str, int] = {}

    def perform(self) -> None:
        """Look at what is new."""
        with self._database.read() as session:
            newest = {each: periods.newest(session, each) for each in learners.environments(session)}
        for environment, period in newest.items():
            if period is not None and self._seen.get(environment) != period.id:
                regressions.look(self._database, self._settings, environment, self._clock())
                self._seen[environment] = period.id
