"""Layout of all pages, security headers, and errors as pages.

A module of pages has a router of `PageRoute`s, whose endpoints take a `Visit` and return `visit.page(template, ...)`,
or `visit.part(template, ...)` for a piece that a page loads later. Templates are given dataclasses and answers of the
wire.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Self
from urllib.parse import quote, urlsplit

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute

from league.api import errors as api_errors
from league.api.dependencies import Filter, Now, Running
from league.auth import Principal
from league.errors import LeagueError, UnauthenticatedError
from league.services.environments import lookup as environments
from league.web.cookies import Visitor, is_signed_in, may_act
from league.web.templating import render

_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
)

HEADERS = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""On every page and every file."""

SIGN_IN = "/sign-in"
GOAL_MAX = 2000
"""Longest address, in characters, that somebody is led to after signing in."""

OFFERED_MAX = 50
"""Environments that a page offers; any other is chosen by its name."""

_FRESH = {"Cache-Control": "no-store"}


@dataclass(frozen=True)
class Visit:
    """One look at the dashboard.

    Attributes:
        principal: Who looks.
        environment: Whose players are shown.
        environments: Those that the page offers, in alphabetical order: all, or the last played ones of many.
        number: Of environments in the league.
        path: Of the page.
        now: The time of the call.
    """

    principal: Principal
    environment: str
    environments: tuple[str, ...]
    number: int
    path: str
    now: datetime

    @property
    def chosen(self) -> str | None:
        """The environment as addresses name it: not at all where there is only one."""
        return self.environment if self.number > 1 else None

    @property
    def may_act(self) -> bool:
        """Whether changes are offered."""
        return may_act(self.principal)

    @property
    def signed_in(self) -> bool:
        """Whether there is a token to sign out with."""
        return is_signed_in(self.principal)

    def of(self, environment: str) -> Self:
        """Return the visit to something of another environment than the chosen one, or of the same."""
        return replace(self, environment=environment)

    def page(self, template: str, name: str, title: str, **values: object) -> HTMLResponse:
        """Return a whole page.

        Args:
            template: Which extends `base.html`.
            name: Of the entry of the navigation that it belongs to.
            title: Of the window.
            values: Of the template, beside `visit`, `name` and `title`.
        """
        return HTMLResponse(render(template, visit=self, name=name, title=title, **values), headers=_FRESH)

    def part(self, template: str, **values: object) -> HTMLResponse:
        """Return a piece of a page, of a template whose name begins with `_`."""
        return HTMLResponse(render(template, visit=self, **values), headers=_FRESH)


class EmptyLeagueError(Exception):
    """The league plays nothing yet: there is nothing to show but how to begin."""

    def __init__(self, principal: Principal) -> None:
        super().__init__("no learner has registered yet")
        self.principal = principal


def visit(request: Request, league: Running, principal: Visitor, now: Now, environment: Filter = None) -> Visit:
    """Find out what somebody looks at: without a choice, what was played last.

    Raises:
        EmptyLeagueError: The league plays nothing yet.
        UnknownEnvironmentError: The league plays other environments, but not the chosen one.
    """
    with league.database.read() as session:
        environments.require_known(session, environment or None)
        offered = environments.last_played(session, OFFERED_MAX)
        number = environments.count(session)
    if not offered:
        raise EmptyLeagueError(principal)
    chosen = environment or offered[0]
    return Visit(principal, chosen, tuple(sorted({chosen, *offered})), number, request.url.path, now)


Visiting = Annotated[Visit, Depends(visit)]


class PageRoute(APIRoute):
    """A route whose errors are pages, too; who is not signed in is sent to where that is done."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(request)
            except Exception as error:  # noqa: BLE001 - whatever it is, a reader is told on a page
                response = _failure(request, error)
            response.headers.update(HEADERS)
            return response

        return answer


def _failure(request: Request, error: Exception) -> Response:
    if isinstance(error, EmptyLeagueError):
        return HTMLResponse(render("welcome.html", signed_in=is_signed_in(error.principal)), headers=_FRESH)
    if isinstance(error, UnauthenticatedError):
        return _to_sign_in(request)
    return error_page(request, api_errors.to_league_error(request, error))


def _to_sign_in(request: Request) -> Response:
    """Send somebody to the form; who follows a link from elsewhere comes without the cookie and loads the page anew."""
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
        return HTMLResponse(render("_reload.html"), headers=_FRESH)
    if is_part(request):
        headers = _FRESH | {"HX-Redirect": _sign_in_for(*_page_of(request))}
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers=headers)
    address = _sign_in_for(request.url.path, request.url.query) if request.method == "GET" else SIGN_IN
    return RedirectResponse(address, status_code=HTTPStatus.SEE_OTHER, headers=_FRESH)


def _page_of(request: Request) -> tuple[str, str]:
    """Return path and query of the page that asks for a piece of itself; empty where it does not say."""
    try:
        shown = urlsplit(request.headers.get("hx-current-url", ""))
    except ValueError:
        return "", ""
    return shown.path, shown.query


def _sign_in_for(path: str, question: str) -> str:
    """Return the address of the form that leads to a page afterwards."""
    place = f"{path}?{question}" if question else path
    return f"{SIGN_IN}?next={quote(place)}" if place not in ("", "/") and len(place) <= GOAL_MAX else SIGN_IN


def error_page(request: Request, error: LeagueError) -> HTMLResponse:
    """Return what an error says, as a page, or as a piece for a page that asked for one.

    A page that may succeed after a while loads itself anew then; a form is left to the reader to send again.
    """
    pause_s, headers = api_errors.pause_s(error), dict(_FRESH)
    again = pause_s is not None and request.method == "GET" and not is_part(request)
    if pause_s is not None:
        headers |= {"Retry-After": str(pause_s)} | ({"Refresh": str(pause_s)} if again else {})
    template = "_error.html" if is_part(request) else "error.html"
    content = render(template, title=error.title.capitalize(), error=error, pause_s=pause_s if again else None)
    return HTMLResponse(content, status_code=error.status, headers=headers)


def is_part(request: Request) -> bool:
    """Say whether a script of a page asks for a piece of it; who goes back in a browser's history wants the whole."""
    headers = request.headers
    return headers.get("hx-request") == "true" and "hx-history-restore-request" not in headers
