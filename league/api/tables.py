"""What people read: the league table, payoffs, the next draw, periods, matches."""

from typing import Annotated

from fastapi import APIRouter, Query

from league import wire
from league.api.dependencies import ID_LIMIT, Admin, After, Before, Environment, Filter, Id, Limit, Now, Reader, Running
from league.api.paging import page
from league.services import draws, matches, payoffs, periods, standings
from league.wire import PREFIX

router = APIRouter(prefix=PREFIX, tags=["tables"])

_PAYOFF_MAX = 500


@router.get("/standings")
def table(
    environment: Environment,
    league: Running,
    _: Reader,
    standing: wire.Standing | None = None,
    limit: Limit = 100,
    cursor: After = 0,
    as_of: Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="a rating period's id; null for now")] = None,
) -> wire.Page[wire.StandingsItem]:
    """Rank an environment's players by rating - 2 RD, now or as of the end of a past period."""
    with league.database.read() as session:
        found = standings.table(session, league.settings, environment, standing, limit + 1, cursor, as_of)
    return page(found, limit, lambda item: item.rank)


@router.get("/payoff")
def payoff(
    environment: Environment, league: Running, _: Reader, limit: Annotated[int, Query(ge=1, le=_PAYOFF_MAX)] = 100
) -> wire.Payoff:
    """Show who beats whom among the strongest players in play."""
    with league.database.read() as session:
        return payoffs.table(session, environment, limit)


@router.get("/matchmaking/preview")
def preview(player: Annotated[int, Query(ge=1, lt=ID_LIMIT)], league: Running, _: Reader) -> wire.Preview:
    """Show the distribution that a learner's next lease is drawn from."""
    with league.database.read() as session:
        return draws.preview(session, league.settings, league.population, player)


@router.post("/rating-periods")
def close(body: wire.PeriodCreate, league: Running, now: Now, caller: Admin) -> wire.RatingPeriod:
    """Rate everything reported so far."""
    environment = body.environment
    if environment is None:
        with league.database.read() as session:
            environment = periods.only_environment(session)
    return periods.close(league.database, league.settings, environment, actor=caller.name, reason=body.reason, now=now)


@router.get("/rating-periods")
def period_listing(
    league: Running, _: Reader, environment: Filter = None, limit: Limit = 100, cursor: Before = None
) -> wire.Page[wire.RatingPeriod]:
    """List rating periods, newest first."""
    with league.database.read() as session:
        found = periods.listing(session, environment, limit + 1, cursor)
    return page(found, limit, lambda period: period.id)


@router.get("/matches/{match_id}")
def match(match_id: Id, league: Running, _: Reader) -> wire.Match:
    """Show one match."""
    with league.database.read() as session:
        return matches.get(session, match_id)


@router.get("/matches/{match_id}/replay")
def replay(match_id: Id, league: Running, _: Reader) -> None:
    """Send a match's recording."""
    with league.database.read() as session:
        matches.replay(session, match_id)
