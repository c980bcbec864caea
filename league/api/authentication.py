"""Authentication of a request: whose token it is, what that may do, and which pages may call from a browser."""

from datetime import datetime
from functools import lru_cache, partial
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import URL

from league.api.rate_limit import REFUSED_COST
from league.api.state import AppState
from league.auth import OPEN, Principal, Scope, digest
from league.errors import ForbiddenError, UnauthenticatedError
from league.request_class import request_class
from league.services.auth import tokens
from league.settings import is_loopback

bearer = HTTPBearer(scheme_name="token", auto_error=False, description="Made by `league token create`")


async def secret_of(credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> str | None:
    """Return the bearer token of a call."""
    return None if credentials is None else credentials.credentials


async def authorise(request: Request, league: AppState, secret: str | None, now: datetime, scope: Scope) -> Principal:
    """Find out who calls, count the call and require the scope; raises as `identify` and `require_scope` do."""
    principal = await identify(request, league, secret, now)
    require_scope(principal, scope)
    return principal


def require_scope(principal: Principal, scope: Scope) -> None:
    """Refuse a caller whose token does not cover a call.

    Raises:
        ForbiddenError: Its scope is a lesser one.
    """
    if principal.scope < scope:
        rule = f"its scope is {principal.scope.word}, but the call requires {scope.word}"
        way_out = f"create a token with `league token create NAME --scope {scope.word}`"
        raise ForbiddenError(f"of token {principal.name!r}", rule, way_out)


async def identify(request: Request, league: AppState, secret: str | None, now: datetime) -> Principal:
    """Find out who calls; a token's calls are counted together, an open server's and refused ones by address.

    Raises:
        UnauthenticatedError: No token has the secret, or none came and the server is closed.
        ForbiddenError: The server is open and the call comes from a page of another site.
        RateLimitedError: The caller made too many calls of late.
    """
    address = f"address {request.client.host}" if request.client is not None else "an unknown address"
    try:
        principal = await find_principal(league, secret, now)
    except UnauthenticatedError:
        league.rate_limiter.admit(address, None, now, REFUSED_COST)
        raise
    if principal is OPEN:
        _refuse_foreign_page(request)
    kind = request_class(request.method, request.scope["path"])
    league.rate_limiter.admit(address if principal is OPEN else f"token {principal.name!r}", kind, now)
    return principal


async def find_principal(league: AppState, secret: str | None, now: datetime) -> Principal:
    """Return who has a secret, as this process remembers it or as the database says.

    Raises:
        UnauthenticatedError: No valid token has it.
    """
    key = None if secret is None else digest(secret)
    return await league.tokens.find(key, now, partial(run_in_threadpool, _authenticate, league, secret, now))


def _authenticate(league: AppState, secret: str | None, now: datetime) -> Principal:
    """Ask the database, and write down now and then that a token was used."""
    with league.database.autocommit_read() as session:
        principal = tokens.authenticate(session.connection(), league.settings, secret, now)
    if principal is not OPEN and league.tokens.is_note_due(principal.name, now):
        with league.database.write() as session:
            tokens.note_use(session, principal.name, now)
    return principal


def _refuse_foreign_page(request: Request) -> None:
    """Keep an open server from the pages of other sites that somebody of this machine has in a browser.

    Such a page says where it is from, or, where its site's name was made to lead here, calls the server by that name.
    Names without a dot are no exception: a network's search domain may lead them here as well.
    """
    origin, host = request.headers.get("origin"), _host(request.headers.get("host"), _own_name(request))
    if origin is not None and not is_loopback(_hostname(origin)):
        raise _foreign(f"from a page of {origin:.120}")
    if not is_loopback(host) and host != _own_name(request):
        raise _foreign(f"under the name {host:.120}")


def _own_name(request: Request) -> str | None:
    """Return what the server itself says it is called: its address, or a name where no socket is between (tests)."""
    server = request.scope.get("server")
    return None if server is None else server[0]


@lru_cache(maxsize=1024)
def _host(header: str | None, own_name: str | None) -> str:
    """Return the name that a call goes to, without its port: by its header, or else the server's own."""
    headers = [] if header is None else [(b"host", header.encode("latin-1"))]
    server = None if own_name is None else (own_name, 80)
    return URL(scope={"path": "/", "headers": headers, "server": server}).hostname or ""


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _foreign(call: str) -> ForbiddenError:
    rule = "without tokens the server accepts calls from this machine only"
    way_out = "call it at 127.0.0.1, or create a token with `league token create NAME --scope admin` and send it"
    return ForbiddenError(call, rule, way_out)
