"""Matchmaking of a learner: the distribution of its next lease."""

from typing import Annotated

from fastapi import APIRouter, Query

from league import wire
from league.api.dependencies import ID_LIMIT, PlayerFilter, Reader, Running
from league.api.routes import ApiRoute
from league.errors import InvalidRequestError
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["matchmaking"])


@router.get("/matchmaking/preview")
def preview_matchmaking(
    league: Running,
    _: Reader,
    player_id: PlayerFilter = None,
    player: Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="Another name of `player_id`")] = None,
) -> wire.Preview:
    """Show the distribution that the next lease of a learner is drawn from, by its player id."""
    chosen = player if player_id is None else player_id
    if chosen is None or player not in (None, chosen):
        raise InvalidRequestError(f"player_id={player_id}", "it is one learner's player id", "see GET /learners")
    with league.database.read() as session:
        return league.leases.preview(session, chosen)
