"""Authentication of requests: bearer tokens, scopes, rate limits, and protection from cross-site browser requests."""

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
    """Return the bearer token of a request."""
    return None if credentials is None else credentials.credentials


async def authorise(request: Request, league: AppState, secret: str | None, now: datetime, scope: Scope) -> Principal:
    """Authenticate the caller, apply its rate limit and require a scope; raises like `identify` and `require_scope`."""
    principal = await identify(request, league, secret, now)
    require_scope(principal, scope)
    return principal


def require_scope(principal: Principal, scope: Scope) -> None:
    """Reject a caller with too small a scope.

    Raises:
        ForbiddenError: The scope does not include the required one.
    """
    if principal.scope < scope:
        rule = f"its scope is {principal.scope.word}, but the call requires {scope.word}"
        remedy = f"create a token with `league token create NAME --scope {scope.word}`"
        raise ForbiddenError(f"of token {principal.name!r}", rule, remedy)


async def identify(request: Request, league: AppState, secret: str | None, now: datetime) -> Principal:
    """Authenticate the caller and apply its rate limit, per token, or per address if open or rejected.

    Raises:
        UnauthenticatedError: The token is missing or invalid.
        ForbiddenError: The server is open and the request comes from a page of another site.
        RateLimitedError: The caller exceeded its rate limit.
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
    # Per token where there is one, because workers behind one router share an address.
    league.rate_limiter.admit(address if principal is OPEN else f"token {principal.name!r}", kind, now)
    return principal


async def find_principal(league: AppState, secret: str | None, now: datetime) -> Principal:
    """Return the principal of a token, cached or from the database.

    Raises:
        UnauthenticatedError: The token is missing or invalid.
    """
    key = None if secret is None else digest(secret)
    return await league.tokens.find(key, now, partial(run_in_threadpool, _authenticate, league, secret, now))


def _authenticate(league: AppState, secret: str | None, now: datetime) -> Principal:
    """Authenticate with the database, and record the use of the token now and then."""
    with league.database.autocommit_read() as session:
        principal = tokens.authenticate(session.connection(), league.settings, secret, now)
    if principal is not OPEN and league.tokens.should_record_use(principal.name, now):
        with league.database.write() as session:
            tokens.note_use(session, principal.name, now)
    return principal


def _refuse_foreign_page(request: Request) -> None:
    """Reject requests to an open server that a page of another site makes in a browser on this machine.

    Such a page sends its `Origin`, or after DNS rebinding the name of its own site as `Host`. Host names without a dot
    are rejected too, because a network's search domain may resolve them to this machine.
    """
    origin, host = request.headers.get("origin"), _host(request.headers.get("host"), _own_name(request))
    if origin is not None and not is_loopback(_hostname(origin)):
        raise _remote_call_error(f"from a page of {origin:.120}")
    if not is_loopback(host) and host != _own_name(request):
        raise _remote_call_error(f"under the name {host:.120}")


def _own_name(request: Request) -> str | None:
    """Return the server's own address, or a name without a socket (tests)."""
    server = request.scope.get("server")
    return None if server is None else server[0]


@lru_cache(maxsize=1024)
def _host(header: str | None, own_name: str | None) -> str:
    """Return the requested host name without its port: that of the header, or the server's own."""
    headers = [] if header is None else [(b"host", header.encode("latin-1"))]
    server = None if own_name is None else (own_name, 80)
    return URL(scope={"path": "/", "headers": headers, "server": server}).hostname or ""


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _remote_call_error(call: str) -> ForbiddenError:
    rule = "without tokens the server accepts calls from this machine only"
    remedy = "call it at 127.0.0.1, or create a token with `league token create NAME --scope admin` and send it"
    return ForbiddenError(call, rule, remedy)
