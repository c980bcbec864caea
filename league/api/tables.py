"""What people read: the league table, payoffs, periods, matches."""

from typing import Annotated

from fastapi import APIRouter, Body, Query

from league import wire
from league.api.dependencies import ID_LIMIT, Admin, After, Before, Filter, Id, Limit, Now, Reader, Running
from league.api.paging import page
from league.api.routes import ApiRoute
from league.services.environments import lookup as environments
from league.services.leaderboard import payoff_matrix, regressions, standings, superiority
from league.services.matches import queries as match_queries
from league.services.promotion import redundancy
from league.services.rating_periods import closing
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["tables"])

_PAYOFF_MAX = 500


@router.get("/standings")
def table(
    league: Running,
    _: Reader,
    environment: Filter = None,
    standing: wire.Standing | None = None,
    limit: Limit = 100,
    cursor: After = 0,
    as_of: Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="a rating period's id; null for now")] = None,
) -> wire.Page[wire.StandingsItem]:
    """Rank an environment's players by rating - 2 RD, now or as of the end of a past period.

    The environment may be left out where the league has only one.
    """
    with league.database.read() as session:
        environment = environment or environments.only(session)
        found = standings.table(session, league.settings, environment, standing, limit + 1, cursor, as_of)
    return page(found, limit, lambda item: item.rank)


@router.get("/payoff")
def payoff(
    league: Running, _: Reader, environment: Filter = None, limit: Annotated[int, Query(ge=1, le=_PAYOFF_MAX)] = 100
) -> wire.Payoff:
    """Show who beats whom among the strongest players in play; `total` says how many are."""
    with league.database.read() as session:
        return payoff_matrix.table(session, environment or environments.only(session), limit)


@router.get("/superiority")
def likely_order(
    league: Running,
    _: Reader,
    environment: Filter = None,
    limit: Annotated[int, Query(ge=1, le=superiority.MOST)] = 100,
) -> wire.Superiority:
    """Show how sure the order of the frozen players in play is: 95 % bands, and who is likely stronger than whom."""
    chosen, compared = league.comparisons.of(league.database, league.settings, environment)
    return superiority.table(chosen, compared, limit)


@router.get("/regressions")
def list_regressions(league: Running, _: Reader, environment: Filter = None) -> wire.Page[wire.Regression]:
    """List the main learners that lose to snapshots which they used to beat, oldest finding first."""
    with league.database.read() as session:
        return wire.Page(items=regressions.listing(session, environment), next_cursor=None)


@router.get("/redundancy")
def list_redundant(league: Running, _: Reader, environment: Filter = None) -> wire.Page[wire.Redundancy]:
    """List the snapshots that another one, which is no weaker, scores like; most alike first."""
    with league.database.read() as session:
        found = redundancy.listing(session, league.settings, environment)
    return wire.Page(items=found, next_cursor=None)


@router.post("/rating-periods")
def close(
    league: Running, now: Now, caller: Admin, body: Annotated[wire.PeriodCreate | None, Body()] = None
) -> wire.RatingPeriod:
    """Rate everything reported so far; without a body, in the league's only environment."""
    asked = body or wire.PeriodCreate()
    with league.database.read() as session:
        environment = asked.environment or environments.only(session)
    return closing.close(league.database, league.settings, environment, actor=caller.name, reason=asked.reason, now=now)


@router.get("/rating-periods")
def period_listing(
    league: Running,
    _: Reader,
    environment: Filter = None,
    limit: Limit = 100,
    cursor: Before = None,
    version: Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="of the ratings; null for the present")] = None,
) -> wire.Page[wire.RatingPeriod]:
    """List rating periods, newest first."""
    with league.database.read() as session:
        found = closing.listing(session, environment, limit + 1, cursor, version)
    return page(found, limit, lambda period: period.id)


@router.get("/matches/{match_id}")
def match(match_id: Id, league: Running, _: Reader) -> wire.PlayedMatch:
    """Show one match, and how both sides played."""
    with league.database.read() as session:
        return match_queries.get(session, match_id)
