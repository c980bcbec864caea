"""Endpoints of champions: an alias per environment that refers to one commander."""

from fastapi import APIRouter

from league import wire
from league.api.dependencies import Admin, Before, Filter, Limit, Now, Reader, Running
from league.api.routes import ApiRoute
from league.pagination import Page
from league.services.audit.log import Cause
from league.services.environments import lookup as environments
from league.services.lifecycle import champions, transitions
from league.services.ratings import rated_players
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/champion", tags=["champion"])


@router.get("")
def get_champion(league: Running, _: Reader, environment: Filter = None) -> wire.Champion:
    """Return the champion of an environment, which you can leave out if the league has only one."""
    with league.database.read() as session:
        return champions.show(session, league.settings, environment or environments.only(session))


@router.get("/history", response_model=wire.Page[wire.ChampionChange])
def list_champions(
    league: Running, _: Reader, environment: Filter = None, limit: Limit = 100, cursor: Before = None
) -> Page[wire.ChampionChange]:
    """List the champions of an environment, newest first."""
    with league.database.read() as session:
        return champions.list_champions(session, environment or environments.only(session), limit, cursor)


@router.post("")
def set_champion(body: wire.ChampionRequest, league: Running, now: Now, caller: Admin) -> wire.Champion:
    """Make a commander the champion of its environment; a candidate is promoted to commander first."""
    with league.database.write() as session:
        transitions.set_champion(session, body.player_id, Cause(caller.name, body.reason, now), expected=body.expected)
        player, _ = rated_players.require(session, body.player_id)
        return champions.show(session, league.settings, player.environment)
