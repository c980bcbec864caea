"""Learners as pages show them: latest metrics, findings, regressions, and whether the trainer still reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import get_args

from sqlalchemy.orm import Session

from league import wire
from league.api.state import AppState
from league.services.leaderboard import regressions
from league.services.population import learners
from league.services.workers import polling
from league.settings import MISSED_HEARTBEATS
from league.web.layout import Visit

LEARNERS_MAX = 200
"""Maximum number of learners shown."""

MIN_SILENCE = timedelta(minutes=1)
"""A trainer counts as silent after `MISSED_HEARTBEATS`, and not before this time. Trainers send a heartbeat every
ten seconds, or less often in a large league.
"""

_HEALTH, _WORST = "health/", "health/worst"


@dataclass(frozen=True)
class Learning:
    """A learner as its card shows it.

    Attributes:
        learner: The learner with its latest metrics.
        silent: Whether its trainer has stopped reporting.
        alarms: Regressions: snapshots that it beat before and now loses to.
    """

    learner: wire.Learner
    silent: bool
    alarms: Sequence[wire.Regression]

    def figure(self, name: str) -> float | None:
        """Return the latest value of a metric."""
        return self.learner.metrics.get(name)

    @property
    def against_itself(self) -> tuple[float, float] | None:
        """Numbers of self-play matches and of all matches in the trainer's own environments; None without any."""
        own, of_all = self.figure("charts/self_play_episodes"), self.figure("charts/episodes")
        return (own, of_all) if own and of_all else None

    @property
    def worst(self) -> wire.Severity | None:
        """Severity of its worst finding; None if there is none, or its trainer reports no findings."""
        return next((verdict.severity for verdict in self.learner.verdicts or ()), None)

    @property
    def unexplained(self) -> Sequence[str]:
        """Names of health metrics above zero, if the trainer reports no findings in words."""
        if self.learner.verdicts is not None:
            return ()
        metrics = self.learner.metrics.items()
        return [
            name.removeprefix(_HEALTH)
            for name, value in metrics
            if name.startswith(_HEALTH) and name != _WORST and value
        ]


def list_learnings(session: Session, league: AppState, visit: Visit) -> list[Learning]:
    """Return the environment's learners, mains first, each role in the order of creation."""
    found = learners.list_learners(session, league.settings, visit.environment, LEARNERS_MAX).items
    alarms = regressions.list_regressions(session, visit.environment)
    # Large leagues ask for fewer heartbeats, so the limit follows the interval that the server itself requests.
    heartbeat_interval = timedelta(seconds=polling.longest_heartbeat_s(league.settings, league.worker_count.present))
    order = list(get_args(wire.Role))
    return [
        Learning(
            learner=learner,
            silent=learner.metrics_at is None
            or visit.now - learner.metrics_at > max(MIN_SILENCE, MISSED_HEARTBEATS * heartbeat_interval),
            alarms=[alarm for alarm in alarms if alarm.learner.player_id == learner.player_id],
        )
        for learner in sorted(found, key=lambda each: order.index(each.role))
    ]
