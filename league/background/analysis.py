"""Periodic task: regression alarms after a rating period."""

from league.background.new_period_task import NewPeriodTask
from league.services.leaderboard import regressions


class AnalysisTask(NewPeriodTask):
    """Updates regression alarms after new rating periods."""

    name = "analysing rating periods"

    def process(self, environment: str) -> None:
        """Update the alarms of an environment."""
        regressions.update_alarms(self._database, self._settings, environment, self._clock())
