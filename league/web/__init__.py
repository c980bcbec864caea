"""The dashboard: server-rendered pages.

See docs/contributing/decisions/0026-the-server-renders-the-dashboard.md.
"""

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from league.api import errors as api_errors
from league.errors import LeagueError, UnknownRouteError
from league.web import (
    actions,
    events,
    head_to_head,
    matches,
    overview,
    payoff,
    player,
    runs,
    session,
    standings,
    workers,
)
from league.web.layout import HEADERS, PageRoute, error_page, is_part
from league.web.templating import render
from league.web.training import curves as training_curves
from league.web.training import page as training
from league.wire import PREFIX

_FOREVER = "public, max-age=31536000, immutable"


_reference = APIRouter(route_class=PageRoute, include_in_schema=False)


@_reference.get("/docs")
async def show_reference() -> HTMLResponse:
    """Show the API reference: Swagger UI over the OpenAPI description, from files of this package."""
    return HTMLResponse(render("docs.html"))


_MODULES = (
    session,
    overview,
    standings,
    player,
    head_to_head,
    actions,
    training,
    training_curves,
    runs,
    payoff,
    matches,
    workers,
    events,
)
ROUTERS = (*(each.router for each in _MODULES), _reference)


def install(app: FastAPI) -> None:
    """Add all pages, static files, and a page for unknown addresses."""
    for router in ROUTERS:
        app.include_router(router)
    app.mount("/static", _Files(packages=[("league.web", "static")]), name="static")
    # The API installed its handler before; this one wraps it, so that programs still get problem documents.
    elsewhere = app.exception_handlers[HTTPException]

    async def answer(request: Request, error: HTTPException) -> Response:
        if not _accepts_html(request):
            return await elsewhere(request, error)  # type: ignore[no-any-return,misc]
        return refusal(request, UnknownRouteError(request.url.path, "there is no such page", "begin at /"))

    app.add_exception_handler(HTTPException, answer)  # type: ignore[arg-type]


def refusal(request: Request, error: LeagueError) -> Response:
    """Answer a request without a route: an error page for browsers, a problem document for programs."""
    if not _accepts_html(request):
        return api_errors.response(error)
    response = error_page(request, error)
    response.headers.update(HEADERS)
    return response


def _accepts_html(request: Request) -> bool:
    """Return whether a browser requests a page or a part of one, rather than an API call."""
    if request.url.path.startswith(PREFIX):
        return False
    return is_part(request) or "text/html" in request.headers.get("accept", "")


class _Files(StaticFiles):
    """Static files: immutable if the URL contains their hash, otherwise revalidated on each request."""

    def file_response(self, full_path: object, stat_result: object, scope: Scope, status_code: int = 200) -> Response:
        """Return a file, or 304 if the browser has it."""
        response = super().file_response(full_path, stat_result, scope, status_code)  # type: ignore[arg-type]
        named = b"v=" in scope["query_string"]
        response.headers.update(HEADERS | {"Cache-Control": _FOREVER if named else "no-cache"})
        return response
