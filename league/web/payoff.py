"""Payoff: who beats whom as a heat map, the circles in it, and what the whole is worth to each player."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, JSONResponse
from sqlalchemy.orm import Session

from league import wire
from league.api.dependencies import ID_LIMIT, Running
from league.errors import UnknownPlayerError
from league.services import payoff_map, periods
from league.services.payoff_map import PayoffMap, Placed
from league.web.shell import PageRoute, Visiting

router = APIRouter(route_class=PageRoute, include_in_schema=False)

SIZES = (25, 50, 100, 200)
"""Of the map, in players."""

_PER_MILLE = 1000

Most = Annotated[Literal["25", "50", "100", "200"], Query()]


@dataclass(frozen=True)
class Against:
    """A player's estimated score against an opponent, and the 95 % interval of its results there, all in [0, 1]."""

    opponent: Placed
    win_rate: float
    low: float
    high: float
    matches: int


@dataclass(frozen=True)
class Edge:
    """A player of a circle, and what it scored against the next."""

    player: Placed
    beaten: Placed
    against: Against


@router.get("/payoff")
def show(league: Running, visit: Visiting, most: Most = "50") -> HTMLResponse:
    """Show the map of the strongest players."""
    with league.database.read() as session:
        drawn = payoff_map.of_environment(session, league.population, visit.environment, int(most))
        period = _last_period(session, visit.environment)
    return visit.page(
        "payoff.html",
        "payoff",
        "Payoff",
        drawn=drawn,
        period=period,
        circles=[_edges(drawn, circle.players) for circle in drawn.circles],
        most=int(most),
        sizes=SIZES,
    )


@router.get("/payoff/cells")
def cells(league: Running, visit: Visiting, most: Most = "50") -> JSONResponse:
    """Return the map's cells above the diagonal, row by row: shares in thousandths, from the row's view."""
    with league.database.read() as session:
        drawn = payoff_map.of_environment(session, league.population, visit.environment, int(most))
    above = np.triu_indices(len(drawn.players), 1)

    def shares(square: payoff_map.FloatArray) -> list[int]:
        rounded: list[int] = np.rint(square[above] * _PER_MILLE).astype(np.int64).tolist()
        return rounded

    content = {
        "win_rate": shares(drawn.win_rate),
        "low": shares(drawn.low),
        "high": shares(drawn.high),
        "matches": drawn.matches[above].tolist(),
    }
    return JSONResponse(content, headers={"Cache-Control": "no-store"})


@router.get("/payoff/against")
def against(
    league: Running, visit: Visiting, player: Annotated[int, Query(ge=1, lt=ID_LIMIT)], most: Most = "50"
) -> HTMLResponse:
    """Show one row of the map as a table."""
    with league.database.read() as session:
        drawn = payoff_map.of_environment(session, league.population, visit.environment, int(most))
    places = [place for place, each in enumerate(drawn.players) if each.id == player]
    if not places:
        raise UnknownPlayerError(player, "it is not among the players of the map", "show more of them")
    row = [_against(drawn, places[0], place) for place in range(len(drawn.players)) if place != places[0]]
    return visit.part("_payoff_against.html", player=drawn.players[places[0]], row=row)


def _edges(drawn: PayoffMap, circle: tuple[int, ...]) -> list[Edge]:
    pairs = zip(circle, [*circle[1:], circle[0]], strict=True)
    return [Edge(drawn.players[place], drawn.players[after], _against(drawn, place, after)) for place, after in pairs]


def _against(drawn: PayoffMap, place: int, other: int) -> Against:
    return Against(
        opponent=drawn.players[other],
        win_rate=float(drawn.win_rate[place, other]),
        low=float(drawn.low[place, other]),
        high=float(drawn.high[place, other]),
        matches=int(drawn.matches[place, other]),
    )


def _last_period(session: Session, environment: str) -> wire.RatingPeriod | None:
    return next(iter(periods.listing(session, environment, 1, None, None)), None)
