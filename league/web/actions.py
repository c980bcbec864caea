"""Forms of the dashboard that change a player; they require an admin token, an own page and a reason."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Form, Path, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import Field, StringConstraints, ValidationError

from league import wire
from league.api.dependencies import ID_LIMIT, TEXT, Id, Now, Running
from league.api.state import AppState
from league.errors import InvalidRequestError
from league.services.audit.log import Cause
from league.services.lifecycle import transitions
from league.services.lifecycle.transitions import Change
from league.services.population import annotations
from league.services.unplayable_reports import false_reports
from league.web.cookies import Actor
from league.web.layout import PageRoute, is_part

router = APIRouter(route_class=PageRoute, include_in_schema=False)

Reason = Annotated[str, StringConstraints(strip_whitespace=True), Form(min_length=1, max_length=500, pattern=TEXT)]


@dataclass(frozen=True)
class PageChange:
    """A change by an admin on a page."""

    request: Request
    league: AppState
    cause: Cause

    def done(self, path: str) -> Response:
        """Respond to a completed change: a script reloads its page, a plain form is redirected to `path`."""
        # htmx follows redirects invisibly, so the page is reloaded by a header instead.
        if is_part(self.request):
            return Response(status_code=HTTPStatus.NO_CONTENT, headers={"HX-Refresh": "true"})
        return RedirectResponse(path, status_code=HTTPStatus.SEE_OTHER)


def page_change(request: Request, league: Running, now: Now, caller: Actor, reason: Reason) -> PageChange:
    """Require an admin, an own page and a reason."""
    return PageChange(request, league, Cause(caller.name, reason, now))


Changing = Annotated[PageChange, Depends(page_change)]


@router.post("/players/{player_id}/champion")
def set_champion(
    player_id: Id,
    changing: Changing,
    expected: Annotated[Annotated[int, Field(ge=1, lt=ID_LIMIT)] | Literal[""], Form()] = "",
) -> Response:
    """Make a player the champion, if the champion is still the one that the page showed; empty for none."""
    with changing.league.database.write() as session:
        transitions.set_champion(session, player_id, changing.cause, expected=expected or None)
    return changing.done(f"/players/{player_id}")


@router.post("/players/{player_id}/dismiss")
def dismiss(player_id: Id, changing: Changing) -> Response:
    """Resolve the open unplayable reports about a player as false."""
    with changing.league.database.write() as session:
        false_reports.dismiss(session, player_id, changing.cause)
    return changing.done(f"/players/{player_id}")


@router.post("/players/{player_id}/annotate")
def annotate(
    player_id: Id,
    changing: Changing,
    tags: Annotated[str, Form(max_length=2500)] = "",
    note: Annotated[str, Form(max_length=4000)] = "",
) -> Response:
    """Replace the tags of a player, which a form separates by commas, and its note."""
    given = [tag.strip() for tag in tags.split(",") if tag.strip()]
    try:
        request = wire.PlayerUpdate(tags=tuple(given), note=note)
    except ValidationError as error:
        remedy = "use letters, digits, spaces and _ . : + / - in tags of at most 64 characters"
        raise InvalidRequestError.of_field(dict(error.errors()[0]), remedy) from error
    with changing.league.database.write() as session:
        annotations.update(session, changing.league.settings, player_id, request, changing.cause)
    return changing.done(f"/players/{player_id}")


@router.post("/players/{player_id}/{change}")
def change(
    player_id: Id,
    change: Annotated[Change, Path()],
    changing: Changing,
    expected: Annotated[wire.Standing, Form()],
) -> Response:
    """Change a player's standing, if it is still the one that the page showed."""
    league = changing.league
    with league.database.write() as session:
        transitions.transition(session, league.settings, player_id, change, changing.cause, expected=expected)
    return changing.done(f"/players/{player_id}")
