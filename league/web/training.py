"""Training: what learners say of themselves, step by step, what is wrong with it, and against whom they learn."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Annotated, get_args

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, JSONResponse
from sqlalchemy.orm import Session

from league import wire
from league.api.dependencies import ID_LIMIT, Id, League, Running
from league.errors import UnknownLearnerError
from league.services import curves, learners, opposition, regressions, standings
from league.web.shell import PageRoute, Visit, Visiting
from league.web.visitors import Visitor

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LEARNERS_MAX = 200
"""Learners that are shown."""

OPPONENTS_SHOWN = 12
POINTS = 600
"""Points of a chart as a page first has it."""

QUIET = timedelta(minutes=1)
"""A trainer beats every ten seconds: one that has been silent so long is away."""


_HEALTH, _WORST = "health/", "health/worst"

Chosen = Annotated[int | None, Query(ge=1, lt=ID_LIMIT)]


@dataclass(frozen=True)
class Chart:
    """Curves of one kind over steps.

    Attributes:
        key: Names the chart on the page.
        title: Above it.
        about: What it shows and what is usual.
        names: Metrics that are drawn, with their labels; `*` stands for any word, which is the label.
        usual: Where it is in most runs that learn; None where that cannot be said.
        share: Whether values are shares from 0 to 1.
    """

    key: str
    title: str
    about: str
    names: Mapping[str, str]
    usual: tuple[float, float] | None = None
    share: bool = False


CHARTS = (
    Chart("return", "Return", "Mean of the last 200 matches", {"charts/episodic_return": "return"}),
    Chart(
        "win_rate",
        "Win rate by branch",
        "Mean score of the last 200 matches of each",
        {"charts/score": "all", "win_rate_by_branch/*": "*"},
        share=True,
    ),
    Chart("kl", "KL divergence", "Per update; usual are 0.001 to 0.02", {"losses/approx_kl": "KL"}, (0.001, 0.02)),
    Chart(
        "clip_fraction",
        "Clip fraction",
        "Share of samples; usual are 0.02 to 0.3",
        {"losses/clipfrac": "clipped"},
        (0.02, 0.3),
    ),
    Chart("entropy", "Entropy per head", "In nats; falls slowly", {"heads/*/entropy": "*"}),
    Chart(
        "explained_variance",
        "Explained variance",
        "By the critic: 1 is all, 0 no better than the mean",
        {"losses/explained_variance": "explained"},
    ),
    Chart(
        "gradient_norm",
        "Gradient norm",
        "Before clipping; usual are 0.05 to 5",
        {"losses/gradient_norm": "norm"},
        (0.05, 5.0),
    ),
    Chart("learning_rate", "Learning rate", "By the schedule", {"charts/learning_rate": "learning rate"}),
    Chart("speed", "Speed", "Steps of all environments per second", {"charts/SPS": "steps/s"}),
)


@dataclass(frozen=True)
class Line:
    """A curve: its label, and a value at each step; None is a gap."""

    label: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Learning:
    """A learner as its card shows it.

    Attributes:
        learner: What it says of itself.
        silent: Whether it says nothing of late.
        alarms: Snapshots that it used to beat and now loses to.
    """

    learner: wire.Learner
    silent: bool
    alarms: Sequence[wire.Regression]

    def figure(self, name: str) -> float | None:
        """Return the last value of a metric."""
        return self.learner.metrics.get(name)

    @property
    def worst(self) -> wire.Severity | None:
        """How bad the worst verdict on it is; None where all is well, or nobody looks."""
        return next((verdict.severity for verdict in self.learner.verdicts or ()), None)

    @property
    def unexplained(self) -> Sequence[str]:
        """Names of what is wrong, of a trainer that does not say it in words."""
        if self.learner.verdicts is not None:
            return ()
        told = self.learner.metrics.items()
        return [
            name.removeprefix(_HEALTH) for name, value in told if name.startswith(_HEALTH) and name != _WORST and value
        ]


@router.get("/training")
def show(league: Running, visit: Visiting, learner: Chosen = None) -> HTMLResponse:
    """Show all learners, and one of them closely."""
    with league.database.read() as session:
        learnings = _learnings(session, league, visit)
        chosen = _chosen(learnings, learner)
        snapshot = _snapshot(session, league, chosen)
        met = opposition.of_learner(session, league.settings, league.population, chosen.learner.player_id)
    return visit.page(
        "training.html",
        "training",
        "Training",
        learnings=learnings,
        chosen=chosen,
        snapshot=snapshot,
        charts=CHARTS,
        opposition=met,
        opponents_shown=OPPONENTS_SHOWN,
    )


@router.get("/training/now")
def now(league: Running, visit: Visiting, learner: Chosen = None) -> HTMLResponse:
    """Show how far learners have come now, and what is wrong."""
    with league.database.read() as session:
        learnings = _learnings(session, league, visit)
        chosen = _chosen(learnings, learner)
        snapshot = _snapshot(session, league, chosen)
    return visit.part("_training_now.html", learnings=learnings, chosen=chosen, snapshot=snapshot)


@router.get("/training/opposition")
def opponents(league: Running, visit: Visiting, learner: Chosen = None) -> HTMLResponse:
    """Show whom a learner meets now."""
    with league.database.read() as session:
        chosen = _chosen(_learnings(session, league, visit), learner)
        met = opposition.of_learner(session, league.settings, league.population, chosen.learner.player_id)
    return visit.part("_training_opposition.html", chosen=chosen, opposition=met, opponents_shown=OPPONENTS_SHOWN)


@router.get("/training/{learner_id}/curves")
def curves_of(
    learner_id: Id, league: Running, _: Visitor, after: Annotated[int, Query(ge=0, lt=ID_LIMIT)] = 0
) -> JSONResponse:
    """Return a learner's charts: at first `POINTS` points of the whole, then those that came after the last one."""
    with league.database.read() as session:
        told = curves.read(session, learner_id, after=after, most=POINTS)
    content = {
        "last": told.last,
        "steps": told.steps,
        "times": [at.timestamp() for at in told.reported_at],
        "charts": {chart.key: [asdict(line) for line in lines_of(chart, told.metrics)] for chart in CHARTS},
    }
    return JSONResponse(content, headers={"Cache-Control": "no-store"})


def lines_of(chart: Chart, metrics: Mapping[str, Sequence[float | None]]) -> list[Line]:
    """Return the curves of a chart, in the order of its names, and of the alphabet where a name stands for many."""
    found = []
    for pattern, label in chart.names.items():
        before, star, behind = pattern.partition("*")
        for name in sorted(metrics):
            word = name.removeprefix(before).removesuffix(behind)
            if name == f"{before}{word}{behind}" and ("/" not in word if star else not word):
                found.append(Line(word if star else label, metrics[name]))
    return found


def _learnings(session: Session, league: League, visit: Visit) -> list[Learning]:
    """Return the environment's learners, mains first, each role in the order in which they were founded."""
    found = learners.listing(session, league.settings, visit.environment, LEARNERS_MAX, 0)
    alarms = regressions.listing(session, visit.environment)
    order = list(get_args(wire.Role))
    return [
        Learning(
            learner=learner,
            silent=learner.metrics_at is None or visit.now - learner.metrics_at > QUIET,
            alarms=[alarm for alarm in alarms if alarm.learner.player_id == learner.player_id],
        )
        for learner in sorted(found, key=lambda each: order.index(each.role))
    ]


def _snapshot(session: Session, league: League, learning: Learning) -> wire.Player | None:
    latest = learning.learner.latest_snapshot
    return None if latest is None else standings.show(session, league.settings, latest)


def _chosen(learnings: Sequence[Learning], learner_id: int | None) -> Learning:
    """Return the learner that is asked for; without one the first that reports, or the first.

    Raises:
        UnknownLearnerError: The environment has no such learner.
    """
    if learner_id is None:
        return next((each for each in learnings if not each.silent), learnings[0])
    for each in learnings:
        if each.learner.id == learner_id:
            return each
    raise UnknownLearnerError(learner_id, "no learner of this environment has this id", "choose one at /training")
