"""Endpoints of rating periods: close and list."""

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response

from league import wire
from league.api.dependencies import ID_LIMIT, Admin, Before, Filter, Id, Limit, Now, Reader, Running
from league.api.responses import created
from league.api.routes import ApiRoute
from league.pagination import Page
from league.services.audit.log import Cause
from league.services.environments import lookup as environments
from league.services.rating_periods import closing
from league.services.rating_periods import queries as period_queries
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["rating periods"])


@router.post("/rating-periods", status_code=201, response_model=wire.RatingPeriod)
def close_rating_period(
    league: Running, now: Now, caller: Admin, body: Annotated[wire.PeriodCreate | None, Body()] = None
) -> Response:
    """Close a rating period over all results so far; without a body, in the league's only environment."""
    body = body or wire.PeriodCreate()
    with league.database.read() as session:
        environment = body.environment or environments.only(session)
    period = closing.close(league.database, league.settings, environment, Cause(caller.name, body.reason, now))
    return created(period, f"/rating-periods/{period.id}")


@router.get("/rating-periods", response_model=wire.Page[wire.RatingPeriod])
def list_rating_periods(
    league: Running,
    _: Reader,
    environment: Filter = None,
    limit: Limit = 100,
    cursor: Before = None,
    version: Annotated[
        int | None, Query(ge=1, lt=ID_LIMIT, description="Version of the ratings; null for the current one")
    ] = None,
) -> Page[wire.RatingPeriod]:
    """List rating periods, newest first."""
    with league.database.read() as session:
        return period_queries.list_periods(session, environment, limit, cursor, version)


@router.get("/rating-periods/{period_id}")
def get_rating_period(period_id: Id, league: Running, _: Reader) -> wire.RatingPeriod:
    """Return one rating period."""
    with league.database.read() as session:
        return period_queries.get_period(session, period_id)
