"""Endpoints of environments and of the caller's token."""

from typing import Annotated

from fastapi import APIRouter, Query

from league import wire
from league.api.dependencies import TEXT, Limit, Reader, Running
from league.api.routes import ApiRoute
from league.pagination import Page
from league.services.environments import listing
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX)


@router.get("/environments", tags=["environments"], response_model=wire.Page[wire.Environment])
def list_environments(
    league: Running,
    _: Reader,
    limit: Limit = 100,
    cursor: Annotated[str, Query(pattern=TEXT, description="`next_cursor` of the previous page")] = "",
) -> Page[wire.Environment]:
    """List environments by name, including created ones without a learner."""
    with league.database.read() as session:
        return listing.list_environments(session, limit, cursor)


@router.get("/me", tags=["health"])
def get_current_token(caller: Reader) -> wire.CurrentToken:
    """Return the token of this call: its name, scope and expiry; `open` if the server needs none."""
    return wire.CurrentToken(name=caller.name, scope=caller.scope.word, expires_at=caller.expires_at)
