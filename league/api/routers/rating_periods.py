"""Rating periods: closed and listed."""

from typing import Annotated

from fastapi import APIRouter, Body, Query

from league import wire
from league.api.dependencies import ID_LIMIT, Admin, Before, Filter, Limit, Now, Reader, Running
from league.api.responses import page
from league.api.routes import ApiRoute
from league.services.environments import lookup as environments
from league.services.rating_periods import closing
from league.services.rating_periods import queries as period_queries
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["tables"])


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
        found = period_queries.listing(session, environment, limit + 1, cursor, version)
    return page(found, limit, lambda period: period.id)
