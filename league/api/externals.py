"""External players are entered."""

from fastapi import APIRouter

from league import wire
from league.api.dependencies import Now, Running, Worker
from league.api.routes import ApiRoute
from league.services.population import external_players
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/externals", tags=["players"])


@router.post("")
def enter(body: wire.ExternalCreate, league: Running, now: Now, caller: Worker) -> wire.Player:
    """Enter a player whose policy stays with the caller; the same name again is the same player."""
    with league.database.write() as session:
        return external_players.enter(session, league.settings, body, caller, now)
