"""Sign-in with a token, and sign-out."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from league.api.authentication import identify
from league.api.dependencies import TEXT, Now, Running
from league.errors import UnauthenticatedError
from league.web.cookies import forget, remember, require_own_page, visitor
from league.web.layout import DESTINATION_MAX, SIGN_IN, PageRoute
from league.web.templating import render

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_FRESH = {"Cache-Control": "no-store"}

Secret = Annotated[str, Form(max_length=500, pattern=TEXT)]
Destination = Annotated[str, Form(alias="next", max_length=DESTINATION_MAX, pattern=TEXT)]


@router.get(SIGN_IN)
async def show_sign_in_form(
    request: Request,
    league: Running,
    now: Now,
    destination: Annotated[str, Query(alias="next", max_length=DESTINATION_MAX, pattern=TEXT)] = "/",
) -> Response:
    """Show the sign-in form, unless no token is needed."""
    try:
        await visitor(request, league, now)
    except UnauthenticatedError:
        return _form(destination, None)
    return _redirect(destination)


@router.post(SIGN_IN)
async def sign_in(
    request: Request, league: Running, now: Now, token: Secret, destination: Destination = "/"
) -> Response:
    """Store a valid token in the visitor's cookie."""
    require_own_page(request)
    try:
        principal = await identify(request, league, token.strip(), now)
    except UnauthenticatedError as error:
        return _form(destination, f"{error.rule}; {error.remedy}")
    response = _redirect(destination)
    remember(request, response, token.strip(), principal.expires_at)
    return response


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """Delete the cookie; the token itself stays valid."""
    require_own_page(request)
    response = _redirect(SIGN_IN)
    forget(request, response)
    return response


def _form(destination: str, error: str | None) -> HTMLResponse:
    status = HTTPStatus.OK if error is None else HTTPStatus.UNAUTHORIZED
    return HTMLResponse(
        render("sign_in.html", destination=destination, error=error), status_code=status, headers=_FRESH
    )


def _redirect(destination: str) -> RedirectResponse:
    """Redirect to a page of this server only, because the URL may be forged (open redirect)."""
    # Browsers read // and /\ as the start of another host's URL.
    own = destination.startswith("/") and not destination.startswith(("//", "/\\"))
    return RedirectResponse(destination if own else "/", status_code=HTTPStatus.SEE_OTHER, headers=_FRESH)
