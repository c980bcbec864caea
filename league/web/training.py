"""Training page: progress of learners, their charts, findings and opponents."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Annotated, get_args

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, JSONResponse
from sqlalchemy.orm import Session

from league import wire
from league.api.dependencies import ID_LIMIT, Id, Running
from league.api.state import AppState
from league.errors import UnknownLearnerError
from league.services.leaderboard import opponent_mix, regressions
from league.services.population import learners, training_curves
from league.services.ratings import rated_players
from league.services.workers import polling
from league.web.charts import CHARTS, lines_of
from league.web.cookies import Visitor
from league.web.layout import PageRoute, Visit, Visiting

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LEARNERS_MAX = 200
"""Maximum number of learners shown."""

OPPONENTS_SHOWN = 12
POINTS = 600
"""Points of a chart in the first response."""

MIN_SILENCE = timedelta(minutes=1)
MISSED_HEARTBEATS = 3
"""A trainer counts as silent after this many missed heartbeats, and not before `MIN_SILENCE`. Trainers send a heartbeat
every ten seconds, or less often in a large league.
"""

_HEALTH, _WORST = "health/", "health/worst"

Chosen = Annotated[int | None, Query(ge=1, lt=ID_LIMIT)]


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


@router.get("/training")
def show(league: Running, visit: Visiting, learner: Chosen = None) -> HTMLResponse:
    """Show all learners, and one of them in detail."""
    with league.database.read() as session:
        learnings = _learnings(session, league, visit)
        chosen = _chosen(learnings, learner)
        snapshot = _snapshot(session, league, chosen)
        opposition = _opposition(session, league, chosen)
    return visit.page(
        "training.html",
        "training",
        "Training",
        learnings=learnings,
        chosen=chosen,
        snapshot=snapshot,
        charts=CHARTS,
        opposition=opposition,
    )


@router.get("/training/now")
def now(league: Running, visit: Visiting, learner: Chosen = None) -> HTMLResponse:
    """Return the current progress and findings of the learners."""
    with league.database.read() as session:
        learnings = _learnings(session, league, visit)
        chosen = _chosen(learnings, learner)
        snapshot = _snapshot(session, league, chosen)
    return visit.part("_training_now.html", learnings=learnings, chosen=chosen, snapshot=snapshot)


@router.get("/training/opposition")
def opponents(league: Running, visit: Visiting, learner: Chosen = None) -> HTMLResponse:
    """Return a learner's current opponents."""
    with league.database.read() as session:
        chosen = _chosen(_learnings(session, league, visit), learner)
        opposition = _opposition(session, league, chosen)
    return visit.part("_training_opposition.html", chosen=chosen, opposition=opposition)


@router.get("/training/{learner_id}/curves")
def curves_of(
    learner_id: Id,
    league: Running,
    _: Visitor,
    after: Annotated[int, Query(ge=0, lt=ID_LIMIT)] = 0,
    more: bool = False,
) -> JSONResponse:
    """Return a learner's charts: first `POINTS` points over all steps, later the points after the last one.

    `more` includes the charts that are shown only on request.
    """
    with league.database.read() as session:
        curves = training_curves.read(session, learner_id, after=after, most=POINTS)
    content = {
        "last": curves.last,
        "steps": curves.steps,
        "times": [at.timestamp() for at in curves.reported_at],
        "charts": {
            chart.key: [asdict(line) for line in lines_of(chart, curves.metrics)]
            for chart in CHARTS
            if more or not chart.more
        },
    }
    return JSONResponse(content, headers={"Cache-Control": "no-store"})


def _learnings(session: Session, league: AppState, visit: Visit) -> list[Learning]:
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


def _opposition(session: Session, league: AppState, chosen: Learning) -> opponent_mix.Opposition:
    """Return the learner's opponents; a trainer with its own self-play environments leases no self-play matches."""
    player_id, self_play = chosen.learner.player_id, chosen.against_itself is None
    return opponent_mix.get_opponent_mix(
        session, league.settings, league.population, player_id, OPPONENTS_SHOWN, self_play=self_play
    )


def _snapshot(session: Session, league: AppState, learning: Learning) -> wire.Player | None:
    latest = learning.learner.latest_snapshot
    return None if latest is None else rated_players.show(session, league.settings, latest)


def _chosen(learnings: Sequence[Learning], learner_id: int | None) -> Learning:
    """Return the requested learner, or by default the first one that reports, or the first.

    Raises:
        UnknownLearnerError: The environment has no such learner.
    """
    if learner_id is None:
        return next((each for each in learnings if not each.silent), learnings[0])
    for each in learnings:
        if each.learner.id == learner_id:
            return each
    raise UnknownLearnerError(learner_id, "no learner of this environment has this id", "choose one at /training")
