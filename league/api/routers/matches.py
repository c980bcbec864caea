"""One match of the log."""

from fastapi import APIRouter

from league import wire
from league.api.dependencies import Id, Reader, Running
from league.api.routes import ApiRoute
from league.services.matches import queries as match_queries
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["tables"])


@router.get("/matches/{match_id}")
def match(match_id: Id, league: Running, _: Reader) -> wire.PlayedMatch:
    """Show one match, and how both sides played."""
    with league.database.read() as session:
        return match_queries.get(session, match_id)
