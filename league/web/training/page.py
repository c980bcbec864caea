"""Training page: progress of learners, their charts, findings and opponents."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from league import wire
from league.api.dependencies import ID_LIMIT, Running
from league.api.state import AppState
from league.errors import InvalidRequestError, UnknownLearnerError
from league.services.leaderboard import opponent_mix
from league.services.ratings import rated_players
from league.web.layout import PageRoute, Visit, Visiting
from league.web.templating import query
from league.web.training.charts import CHARTS
from league.web.training.curves import COMPARED_MAX
from league.web.training.learners import Learning, list_learnings

router = APIRouter(route_class=PageRoute, include_in_schema=False)

OPPONENTS_SHOWN = 12

CARDS_SHOWN = 12
"""Number of learners with a card beside the chosen one, unless a reader asks for all."""

SMOOTH_MAX = 0.99
"""Largest weight of the past in smoothed curves."""

_LEARNER = Annotated[int, Field(ge=1, lt=ID_LIMIT)]

Chosen = Annotated[int | None, Query(ge=1, lt=ID_LIMIT)]


class PageQuery(BaseModel):
    """Query of the page; forms send an empty string for no value.

    Attributes:
        learner: Id of the learner in detail; by default the first one that reports.
        compare: Ids of learners whose curves are drawn beside those of the first one.
        x: Whether curves are over steps, the time of reports, or hours since the first report.
        smooth: Weight of the past in a moving average, in [0, 1).
        log: Whether values are on a logarithmic axis.
        q: Text in the names of the learners that have a card; all if empty.
        all: Whether more than `CARDS_SHOWN` learners have a card.
    """

    learner: _LEARNER | Literal[""] = ""
    compare: list[_LEARNER | Literal[""]] = []
    x: Literal["step", "time", "hours"] = "step"
    smooth: Annotated[float, Field(ge=0.0, le=SMOOTH_MAX)] = 0.0
    log: bool = False
    q: Annotated[str, Field(max_length=100)] = ""
    all: bool = False

    def address(self, visit: Visit, **changes: Any) -> str:  # noqa: ANN401 - parameters of an address
        """Return the URL of this query with some changes, without default values."""
        params = self.model_copy(update=changes).model_dump(exclude_defaults=True)
        return query("/training", environment=visit.chosen, **params)


QueryParams = Annotated[PageQuery, Query()]


@router.get("/training")
def show(league: Running, visit: Visiting, params: QueryParams) -> HTMLResponse:
    """Show all learners, one of them in detail, and its curves beside those of others."""
    with league.database.read() as session:
        learnings = list_learnings(session, league, visit)
        progress = _progress(session, league, learnings, params)
        compared = _compared(learnings, progress["chosen"], params)
        opposition = _opposition(session, league, progress["chosen"])
    return visit.page(
        "training.html",
        "training",
        "Training",
        **progress,
        cards_shown=CARDS_SHOWN,
        compared=compared,
        may_compare=len(compared) < COMPARED_MAX,
        charts=CHARTS,
        opposition=opposition,
        smooth_max=SMOOTH_MAX,
    )


@router.get("/training/now")
def now(league: Running, visit: Visiting, params: QueryParams) -> HTMLResponse:
    """Return the current progress and findings of the learners."""
    with league.database.read() as session:
        progress = _progress(session, league, list_learnings(session, league, visit), params)
    return visit.part("_training_now.html", **progress)


@router.get("/training/opposition")
def opponents(league: Running, visit: Visiting, learner: Chosen = None) -> HTMLResponse:
    """Return a learner's current opponents."""
    with league.database.read() as session:
        chosen = _chosen(list_learnings(session, league, visit), learner)
        opposition = _opposition(session, league, chosen)
    return visit.part("_training_opposition.html", chosen=chosen, opposition=opposition)


def _opposition(session: Session, league: AppState, chosen: Learning) -> opponent_mix.Opposition:
    """Return the learner's opponents; a trainer with its own self-play environments leases no self-play matches."""
    player_id, self_play = chosen.learner.player_id, chosen.against_itself is None
    return opponent_mix.get_opponent_mix(
        session, league.settings, league.population, player_id, OPPONENTS_SHOWN, self_play=self_play
    )


def _progress(session: Session, league: AppState, learnings: Sequence[Learning], params: PageQuery) -> dict[str, Any]:
    """Return the values of the template that shows the progress and findings of learners."""
    chosen = _chosen(learnings, params.learner or None)
    latest = chosen.learner.latest_snapshot
    return {
        "learnings": learnings,
        "cards": _cards(learnings, chosen, params),
        "chosen": chosen,
        "snapshot": None if latest is None else rated_players.show(session, league.settings, latest),
        "params": params,
    }


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


def _cards(learnings: Sequence[Learning], chosen: Learning, params: PageQuery) -> Sequence[Learning]:
    """Return the learners with a card: the chosen one, and the first ones that fit the filter."""
    fitting = [each for each in learnings if params.q.casefold() in each.learner.name.casefold()]
    shown = fitting if params.all else fitting[:CARDS_SHOWN]
    return shown if chosen in shown else [chosen, *shown]


def _compared(learnings: Sequence[Learning], chosen: Learning, params: PageQuery) -> list[wire.Learner]:
    """Return the learners whose curves are drawn, the chosen one first.

    Raises:
        UnknownLearnerError: The environment has no such learner.
        InvalidRequestError: There are more than `COMPARED_MAX`.
    """
    ids = dict.fromkeys([chosen.learner.id, *(each for each in params.compare if each)])
    if len(ids) > COMPARED_MAX:
        rule = f"a chart has the curves of at most {COMPARED_MAX} learners"
        raise InvalidRequestError(f"{len(ids)} learners", rule, "compare fewer of them")
    return [_chosen(learnings, each).learner for each in ids]
