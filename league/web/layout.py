"""Layout of all pages, security headers and error pages.

A module of pages has a router of `PageRoute`s. Its endpoints take a `Visit` and return `visit.page(template, ...)`, or
`visit.part(template, ...)` for a part that a page loads later. Templates receive dataclasses and response bodies.
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

# No inline scripts or styles: a name that escapes a template unescaped still cannot run code.
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
"""Security headers of every page and file."""

SIGN_IN = "/sign-in"
DESTINATION_MAX = 2000
"""Maximum length of the URL to return to after signing in, in characters."""

OFFERED_MAX = 50
"""Maximum number of environments in the selection; others can be chosen by name."""

_FRESH = {"Cache-Control": "no-store"}


@dataclass(frozen=True)
class Visit:
    """One request for a page.

    Attributes:
        principal: The authenticated visitor.
        environment: Environment of the page.
        environments: Environments in the selection, in alphabetical order: all, or the most recently played ones.
        number: Number of environments in the league.
        path: Path of the page.
        now: Time of the request.
    """

    principal: Principal
    environment: str
    environments: tuple[str, ...]
    number: int
    path: str
    now: datetime

    @property
    def chosen(self) -> str | None:
        """The environment as a URL parameter; None if there is only one."""
        return self.environment if self.number > 1 else None

    @property
    def may_act(self) -> bool:
        """Whether changes are offered."""
        return may_act(self.principal)

    @property
    def signed_in(self) -> bool:
        """Whether the visitor can sign out."""
        return is_signed_in(self.principal)

    def of(self, environment: str) -> Self:
        """Return the visit with the environment of the object shown."""
        return replace(self, environment=environment)

    def page(self, template: str, name: str, title: str, **values: object) -> HTMLResponse:
        """Return a whole page.

        Args:
            template: Template that extends `base.html`.
            name: Entry in the navigation.
            title: Title of the window.
            values: Variables of the template besides `visit`, `name` and `title`.
        """
        return HTMLResponse(render(template, visit=self, name=name, title=title, **values), headers=_FRESH)

    def part(self, template: str, **values: object) -> HTMLResponse:
        """Return a part of a page, from a template with a leading `_` in its name."""
        return HTMLResponse(render(template, visit=self, **values), headers=_FRESH)


class EmptyLeagueError(Exception):
    """The league has no learner yet, so that the dashboard shows only the first steps."""

    def __init__(self, principal: Principal) -> None:
        super().__init__("no learner has registered yet")
        self.principal = principal


def visit(request: Request, league: Running, principal: Visitor, now: Now, environment: Filter = None) -> Visit:
    """Return the visit of a page; the default environment is the most recently played one.

    Raises:
        EmptyLeagueError: The league has no learner yet.
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
    """A route that answers errors with pages and redirects visitors without a token to the sign-in form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the request handler."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(request)
            except Exception as error:  # noqa: BLE001 - every error gets an error page
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
    """Redirect to the sign-in form.

    SameSite=Strict withholds the cookie when a visitor follows a link from another site, so that page is first reloaded
    from this site.
    """
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
        return HTMLResponse(render("_reload.html"), headers=_FRESH)
    if is_part(request):
        headers = _FRESH | {"HX-Redirect": _sign_in_for(*_page_of(request))}
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers=headers)
    address = _sign_in_for(request.url.path, request.url.query) if request.method == "GET" else SIGN_IN
    return RedirectResponse(address, status_code=HTTPStatus.SEE_OTHER, headers=_FRESH)


def _page_of(request: Request) -> tuple[str, str]:
    """Return path and query of the page that requests a part, or empty strings."""
    try:
        shown = urlsplit(request.headers.get("hx-current-url", ""))
    except ValueError:
        return "", ""
    return shown.path, shown.query


def _sign_in_for(path: str, question: str) -> str:
    """Return the URL of the sign-in form that leads to a page afterwards."""
    destination = f"{path}?{question}" if question else path
    return (
        f"{SIGN_IN}?next={quote(destination)}"
        if destination not in ("", "/") and len(destination) <= DESTINATION_MAX
        else SIGN_IN
    )


def error_page(request: Request, error: LeagueError) -> HTMLResponse:
    """Return an error as a page, or as a part of a page.

    After a temporary error a page reloads itself. A form must be sent again by the visitor.
    """
    pause_s, headers = api_errors.pause_s(error), dict(_FRESH)
    # Reloading a POST or a part would repeat the change, or replace the page by the part.
    again = pause_s is not None and request.method == "GET" and not is_part(request)
    if pause_s is not None:
        headers |= {"Retry-After": str(pause_s)} | ({"Refresh": str(pause_s)} if again else {})
    template = "_error.html" if is_part(request) else "error.html"
    content = render(template, title=error.title.capitalize(), error=error, pause_s=pause_s if again else None)
    return HTMLResponse(content, status_code=error.status, headers=headers)


def is_part(request: Request) -> bool:
    """Return whether a script requests a part of a page; history navigation in the browser needs the whole page."""
    headers = request.headers
    return headers.get("hx-request") == "true" and "hx-history-restore-request" not in headers
