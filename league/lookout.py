"""The duty to see what a rating period brought beside ratings: how players play, and what main learners lost."""

from collections.abc import Callable
from datetime import datetime

from league.config import Settings
from league.db.engine import Database
from league.duty import Duty
from league.services import fingerprint_sums, learners, periods, regressions
from league.services.recollection import Recollection


class Lookout(Duty):
    """Looks every `aggregation_interval_s` at what is new in each environment.

    Every server does; what one of them has written the others do not write again.
    """

    name = "looking at rating periods"

    def __init__(self, database: Database, settings: Settings, clock: Callable[[], datetime]) -> None:
        super().__init__(settings.aggregation_interval_s, settings.aggregation_interval_s)
        self._database, self._settings, self._clock = database, settings, clock
        self._recollection = Recollection()
        self._seen: dict[str, int] = {}

    def perform(self) -> None:
        """Look at what is new."""
        with self._database.read() as session:
            newest = {each: periods.newest(session, each) for each in learners.environments(session)}
        for environment, period in newest.items():
            fingerprint_sums.follow(self._database, environment)
            if period is not None and self._seen.get(environment) != period.id:
                regressions.look(self._database, self._settings, self._recollection, environment, self._clock())
                self._seen[environment] = period.id
