"""Changes that people make on pages: an admin's token, a form of our own, a reason for the log."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Path, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import Field, StringConstraints

from league import wire
from league.api.dependencies import ID_LIMIT, TEXT, Id, Now, Running
from league.services.lifecycle import transitions
from league.services.lifecycle.transitions import Change
from league.services.unplayable_reports import false_reports
from league.web.cookies import Actor
from league.web.layout import PageRoute, is_part

router = APIRouter(route_class=PageRoute, include_in_schema=False)

Reason = Annotated[str, StringConstraints(strip_whitespace=True), Form(min_length=1, max_length=500, pattern=TEXT)]


def done(request: Request, path: str) -> Response:
    """Answer a change that was made: a script reloads its page, a bare form goes on to `path`."""
    if is_part(request):
        return Response(status_code=HTTPStatus.NO_CONTENT, headers={"HX-Refresh": "true"})
    return RedirectResponse(path, status_code=HTTPStatus.SEE_OTHER)


@router.post("/players/{player_id}/champion")
def crown(
    player_id: Id,
    request: Request,
    league: Running,
    now: Now,
    caller: Actor,
    reason: Reason,
    expected: Annotated[Annotated[int, Field(ge=1, lt=ID_LIMIT)] | Literal[""], Form()] = "",
) -> Response:
    """Make a player the champion, if the champion is still the one that the page showed; empty for none."""
    with league.database.write() as session:
        transitions.set_champion(
            session, player_id, actor=caller.name, reason=reason, now=now, expected=expected or None
        )
    return done(request, f"/players/{player_id}")


@router.post("/players/{player_id}/dismiss")
def dismiss(player_id: Id, request: Request, league: Running, now: Now, caller: Actor, reason: Reason) -> Response:
    """Resolve the open reports that a player cannot be played as false."""
    with league.database.write() as session:
        false_reports.dismiss(session, player_id, actor=caller.name, reason=reason, now=now)
    return done(request, f"/players/{player_id}")


@router.post("/players/{player_id}/{change}")
def change(
    player_id: Id,
    change: Annotated[Change, Path()],
    request: Request,
    league: Running,
    now: Now,
    caller: Actor,
    reason: Reason,
    expected: Annotated[wire.Standing, Form()],
) -> Response:
    """Change a player's standing, if it is still the one that the page showed."""
    with league.database.write() as session:
        transitions.transition(
            session,
            league.settings,
            player_id,
            change,
            actor=caller.name,
            reason=reason,
            now=now,
            expected=expected,
        )
    return done(request, f"/players/{player_id}")
