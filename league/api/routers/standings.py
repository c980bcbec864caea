"""Standings of an environment."""

from typing import Annotated

from fastapi import APIRouter, Query

from league import wire
from league.api.dependencies import ID_LIMIT, After, Filter, Limit, Reader, Running
from league.api.responses import page
from league.api.routes import ApiRoute
from league.services.environments import lookup as environments
from league.services.leaderboard import standings
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["tables"])


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
        found = standings.get_standings(session, league.settings, environment, standing, limit + 1, cursor, as_of)
    return page(found, limit, lambda item: item.rank)
