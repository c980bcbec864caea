"""Payoff page: heat map of win rates, cycles, and weights in the Nash mixture."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel
from sqlalchemy.orm import Session

from league import wire
from league.api.dependencies import ID_LIMIT, Running
from league.api.state import AppState
from league.errors import UnknownPlayerError
from league.services.leaderboard import deviations, payoff_matrix, predicted_cycle
from league.services.leaderboard.deviations import Deviations, PairDeviation
from league.services.leaderboard.payoff_matrix import PayoffFilter, PayoffMatrix, PayoffPlayer
from league.services.rating_periods import queries as period_queries
from league.services.ratings import pair_predictions
from league.web.layout import PageRoute, Visit, Visiting
from league.web.templating import query

router = APIRouter(route_class=PageRoute, include_in_schema=False)

SIZES = (20, 50, 100, 200)
"""Selectable sizes of the heat map, in players. Up to 20, its cells have numbers."""

_PER_MILLE = 1000


class PageQuery(BaseModel):
    """Query of the page; forms send an empty string for no value."""

    most: Literal["20", "50", "100", "200"] = "50"
    who: Literal["", "frozen"] = ""

    def address(self, visit: Visit, path: str, **more: int) -> str:
        """Return a URL with this query and further parameters."""
        return query(path, environment=visit.chosen, **self.model_dump(exclude_defaults=True), **more)


QueryParams = Annotated[PageQuery, Query()]


@dataclass(frozen=True)
class Against:
    """A player's estimated score against an opponent with the 95 % interval of its results, all in [0, 1].

    `disagreement` is given if the results deviate from ratings or from the prediction.
    """

    opponent: PayoffPlayer
    win_rate: float
    low: float
    high: float
    matches: int
    disagreement: PairDeviation | None = None


@dataclass(frozen=True)
class Edge:
    """A player of a cycle, and its score against the next one."""

    player: PayoffPlayer
    beaten: PayoffPlayer
    against: Against


@router.get("/payoff")
def show(league: Running, visit: Visiting, params: QueryParams) -> HTMLResponse:
    """Show the heat map of the strongest players."""
    with league.database.read() as session:
        drawn = _drawn(session, league, visit, params)
        period = _last_period(session, visit.environment)
        deviating = deviations.get_deviations(session, league.population, visit.environment)
        predicted = predicted_cycle.get_predicted_cycle(session, league.population, visit.environment)
        model = pair_predictions.describe(session, visit.environment)
    return visit.page(
        "payoff.html",
        "payoff",
        "Payoff",
        drawn=drawn,
        period=period,
        model=model,
        cycles=[_edges(drawn, cycle.players) for cycle in drawn.cycles],
        predicted_cycle=predicted,
        misleading=deviating.players,
        params=params,
        sizes=SIZES,
        **_row(drawn, deviating, 0),
    )


@router.get("/payoff/cells")
def cells(league: Running, visit: Visiting, params: QueryParams) -> JSONResponse:
    """Return the cells above the diagonal, row by row, in thousandths from the row player's point of view.

    Interval bounds are sent only for pairs with matches, in the same order, because most pairs have none. The score
    that ratings predict is sent only for pairs that deviate, by the index of their cell.
    """
    with league.database.read() as session:
        drawn = _drawn(session, league, visit, params)
        deviating = deviations.get_deviations(session, league.population, visit.environment)
    # The matrix is antisymmetric around one half, so one triangle is enough.
    above = np.triu_indices(len(drawn.players), 1)

    matches = drawn.matches[above]

    def shares(cells: payoff_matrix.FloatArray) -> list[int]:
        rounded: list[int] = np.rint(cells * _PER_MILLE).astype(np.int64).tolist()
        return rounded

    content = {
        "win_rate": shares(drawn.win_rate[above]),
        "low": shares(drawn.low[above][matches > 0]),
        "high": shares(drawn.high[above][matches > 0]),
        "matches": matches.tolist(),
        "by_ratings": _deviating_cells(drawn, deviating),
    }
    return JSONResponse(content, headers={"Cache-Control": "no-store"})


@router.get("/payoff/against")
def against(
    league: Running, visit: Visiting, params: QueryParams, player: Annotated[int, Query(ge=1, lt=ID_LIMIT)]
) -> HTMLResponse:
    """Show one row of the heat map as a table."""
    with league.database.read() as session:
        drawn = _drawn(session, league, visit, params)
        deviating = deviations.get_deviations(session, league.population, visit.environment)
    indices = [index for index, each in enumerate(drawn.players) if each.id == player]
    if not indices:
        raise UnknownPlayerError(player, "the matrix does not show it", "show more of them")
    return visit.part("_payoff_against.html", **_row(drawn, deviating, indices[0]))


def _drawn(session: Session, league: AppState, visit: Visit, params: PageQuery) -> PayoffMatrix:
    wanted = PayoffFilter(int(params.most), learners=params.who != "frozen")
    return payoff_matrix.get_payoff_matrix(session, league.settings, league.population, visit.environment, wanted)


def _deviating_cells(drawn: PayoffMatrix, deviating: Deviations) -> dict[int, int]:
    """Return the scores that ratings predict for deviating pairs in thousandths, by the index of their cell."""
    ranks, size = {player.id: rank for rank, player in enumerate(drawn.players)}, len(drawn.players)
    cells = {}
    for pair in deviating.pairs:
        if ranks.keys() >= set(pair):
            row, column = sorted(ranks[player] for player in pair)
            found = deviating.find(drawn.players[row].id, drawn.players[column].id)
            if found is not None:
                cells[row * size - row * (row + 1) // 2 + column - row - 1] = round(_PER_MILLE * found.by_ratings)
    return cells


def _row(drawn: PayoffMatrix, deviating: Deviations, index: int) -> dict[str, Any]:
    """Return a player and its row of the matrix."""
    player = drawn.players[index]
    row = [
        replace(_against(drawn, index, other), disagreement=deviating.find(player.id, opponent.id))
        for other, opponent in enumerate(drawn.players)
        if other != index
    ]
    return {"player": player, "row": row}


def _edges(drawn: PayoffMatrix, cycle: tuple[int, ...]) -> list[Edge]:
    pairs = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    return [Edge(drawn.players[index], drawn.players[after], _against(drawn, index, after)) for index, after in pairs]


def _against(drawn: PayoffMatrix, index: int, other: int) -> Against:
    return Against(
        opponent=drawn.players[other],
        win_rate=float(drawn.win_rate[index, other]),
        low=float(drawn.low[index, other]),
        high=float(drawn.high[index, other]),
        matches=int(drawn.matches[index, other]),
    )


def _last_period(session: Session, environment: str) -> wire.RatingPeriod | None:
    return next(iter(period_queries.list_periods(session, environment, 1).items), None)
