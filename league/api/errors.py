"""Conversion of all errors to problem documents (RFC 9457)."""

import logging
import re
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from league import wire
from league.errors import (
    DatabaseUnavailableError,
    InternalError,
    InvalidRequestError,
    LeagueError,
    UnauthenticatedError,
    UnknownRouteError,
)
from league.log_config import request_id

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "X-Request-ID"
RETRY_AFTER_S = 5

_SERVICE_UNAVAILABLE = 503
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_NO_METHOD = 405
_NO_ROUTE = (404, _NO_METHOD)
_REMEDY = "see /docs for its parameters"
_UNREADABLE = {RecursionError: "its JSON nests too deeply", UnicodeDecodeError: "it is not UTF-8"}
"""Reasons for an unreadable body besides invalid JSON."""

_NAMED = re.compile(r'"[^"]*"(?: \([^)]*\))?(?:, port \d+)?')


class Problem(wire.Answer):
    """An error document (RFC 9457): `detail` consists of `value`, the broken `rule` and the `remedy`."""

    type: str
    """Stable identifier of the kind of error."""
    title: str
    """The kind of error in words."""
    status: int
    """The HTTP status."""
    detail: str
    """Value, rule and remedy in one sentence."""
    value: str
    """The offending value."""
    rule: str
    """The rule that it breaks."""
    remedy: str
    """How to correct the call."""
    request_id: str | None
    """Id of the request in the server's log."""


FORESEEN = LeagueError, RequestValidationError, ClientDisconnect, DBAPIError, PoolTimeoutError
"""Expected errors, which are not defects of the server."""

log = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    """Register handlers that answer all errors and defects with problem documents."""
    for kind in (*FORESEEN, Exception):
        app.add_exception_handler(kind, _answer)
    app.add_exception_handler(HTTPException, _answer_framework_error)


def response(error: LeagueError, members: Mapping[str, Any] | None = None) -> JSONResponse:
    """Return the problem document of an error, with the headers of its status and additional members."""
    headers = {}
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = "Bearer"
    if (wait_s := pause_s(error)) is not None:
        headers["Retry-After"] = str(wait_s)
    current_id = request_id.get()
    if current_id is not None:
        headers[REQUEST_ID] = current_id  # the handler of defects runs outside of the request id middleware
    document = error.problem() | {"request_id": current_id} | dict(members or {})
    return JSONResponse(document, status_code=error.status, headers=headers, media_type=MEDIA_TYPE)


def pause_s(error: LeagueError) -> int | None:
    """Return the seconds after which a failed call may succeed; None if waiting does not help."""
    return error.retry_after_s or (RETRY_AFTER_S if error.status == _SERVICE_UNAVAILABLE else None)


def to_league_error(request: Request, error: Exception) -> LeagueError:
    """Return the error for the caller; errors of the server are logged."""
    if isinstance(error, LeagueError):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        return _framework_error(request, error)
    if isinstance(error, ClientDisconnect):
        return InvalidRequestError("body", "the client disconnected before the end of the body", "send it again")
    if isinstance(error, OperationalError | PoolTimeoutError) or _is_cut_off(error):
        return _unavailable(request, error)
    return _defect(request, error)


def redact(message: str) -> str:
    """Remove the quoted hosts, users and databases from a database driver's message.

    The message is public, because without the database no caller can be authenticated. The log has the original.
    """
    return _NAMED.sub('"..."', message)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    return response(to_league_error(request, error))


def _invalid(error: RequestValidationError) -> LeagueError:
    first: dict[str, Any] = error.errors()[0]
    if first.get("type") == "json_invalid":
        rule = f"it is not JSON ({first['ctx']['error']} at character {first['loc'][-1]})"
        return InvalidRequestError("body", rule, _REMEDY)
    remedy = "send it as Content-Type: application/json" if isinstance(first.get("input"), bytes) else _REMEDY
    return InvalidRequestError.of_field(first, remedy)


def _framework_error(request: Request, error: HTTPException) -> LeagueError:
    for kind, rule in _UNREADABLE.items():
        if isinstance(error.__cause__, kind):
            return InvalidRequestError("body", rule, _REMEDY)
    return InvalidRequestError(f"{request.method} {request.url.path}", str(error.detail).lower(), _REMEDY)


async def _answer_framework_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException) or error.status_code not in _NO_ROUTE:
        return await _answer(request, error)
    call, rule = f"{request.method} {request.url.path}", str(error.detail).lower()
    # The class has one status, while the framework distinguishes 404 and 405.
    answer = response(UnknownRouteError(call, rule, "see /docs for all calls"), {"status": error.status_code})
    answer.status_code = error.status_code
    answer.headers.update(error.headers or {})
    if error.status_code == _NO_METHOD:
        answer.headers["Allow"] = ", ".join(_methods(request))
    return answer


def _methods(request: Request) -> list[str]:
    """Return all methods of the path; the framework lists only those of one route."""
    routes = request.app.routes
    scopes = ({**request.scope, "method": method} for method in _METHODS)
    return [str(scope["method"]) for scope in scopes if any(route.matches(scope)[0] is Match.FULL for route in routes)]


def _is_cut_off(error: Exception) -> bool:
    """Return whether the database closed the connection, for example of a process suspended within a transaction."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _unavailable(request: Request, error: Exception) -> LeagueError:
    log.error("%s %s: %s", request.method, request.url.path, error)
    cause = str(getattr(error, "orig", error)).strip().splitlines()[0]
    return DatabaseUnavailableError(request.url.path, redact(cause), "send the call again later")


def _defect(request: Request, error: Exception) -> LeagueError:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    rule = f"{type(error).__name__} in the server; the call had no effect"
    remedy = f"send it again; if it fails again, report it with the server's log of request {request_id.get()}"
    return InternalError(f"{request.method} {request.url.path}", rule, remedy)
