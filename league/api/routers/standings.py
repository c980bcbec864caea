"""Endpoint of an environment's standings."""

from operator import attrgetter
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from league import wire
from league.api.dependencies import ID_LIMIT, TEXT, After, Filter, Limit, Reader, Running
from league.api.routes import ApiRoute
from league.pagination import Page
from league.services.environments import lookup as environments
from league.services.leaderboard import standings
from league.services.leaderboard.standings import Sort, StandingsFilter
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["standings"])


@router.get("/standings", response_model=wire.Page[wire.StandingsItem])
def get_standings(
    league: Running,
    _: Reader,
    environment: Filter = None,
    q: Annotated[
        str,
        Query(
            max_length=200, pattern=TEXT, description="Part of a name, call-sign or tag, or the beginning of a SHA-256"
        ),
    ] = "",
    kind: Annotated[wire.Kind | None, Query(description="Only players of this kind")] = None,
    role: Annotated[wire.Role | None, Query(description="Only players of lineages of this role")] = None,
    standing: Annotated[
        wire.Standing | Literal["in_play"] | None,
        Query(description="Only players of this standing; `in_play` excludes the retired and the quarantined"),
    ] = None,
    learner_id: Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="Only players of this lineage")] = None,
    sort: Annotated[Sort, Query(description="Column to sort by; rows without a value come last")] = "conservative",
    order: Annotated[Literal["ascending", "descending"], Query(description="Order of the column")] = "descending",
    limit: Limit = 100,
    cursor: After = 0,
    as_of: Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="Id of a rating period; null for now")] = None,
) -> Page[wire.StandingsItem]:
    """Rank an environment's players by rating - 2 RD, now or at the end of a past period.

    `rank` counts the listed players. You can leave out the environment if the league has only one.
    """
    wanted = StandingsFilter(q, kind, standing, role, learner_id, sort, descending=order == "descending")
    with league.database.read() as session:
        environment = environment or environments.only(session)
        environments.require_known(session, environment)
        if as_of is None:
            table = standings.get_standings(session, league.settings, league.population, environment)
        else:
            table = standings.get_past_standings(session, league.settings, environment, as_of)
        chosen = table.select(wanted)
        ranks = {row.id: rank for rank, row in enumerate(sorted(chosen, key=attrgetter("place")), start=1)}
        found = Page.at(chosen, cursor, limit)
        items = standings.show(session, league.settings, found.items, ranks, as_of)
    return Page(items, found.next_cursor)
