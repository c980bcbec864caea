"""Session cookie of the dashboard: a token that scripts cannot read and other sites cannot send."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response

from league.api.authentication import identify, require_scope
from league.api.dependencies import Now, Running, get_clock, validity_check
from league.auth import OPEN, Principal, Scope
from league.errors import ForbiddenError, UnauthenticatedError

COOKIE = "league_token"
_MAX_AGE_S = 90 * 86400


def cookie_at(port: int | None) -> str:
    """Return the name of the session cookie for a port, None for the default one.

    Browsers share cookies among all ports of a host, which may serve several leagues.
    """
    return COOKIE if port is None else f"{COOKIE}_{port}"


async def visitor(request: Request, league: Running, now: Now) -> Principal:
    """Authenticate the visitor of a page; every token may read.

    An invalid token counts as none, because the browser may have that of a league formerly served here.

    Raises:
        UnauthenticatedError: The visitor is not signed in, and the league requires authentication.
    """
    secret = _secret(request)
    if secret is not None:
        # An open league must not ask for a token only because of an old cookie.
        with suppress(UnauthenticatedError):
            return await identify(request, league, secret, now)
    return await identify(request, league, None, now)


async def actor(request: Request, league: Running, now: Now) -> Principal:
    """Authenticate an admin for a change on one of this server's pages."""
    require_own_page(request)
    principal = await visitor(request, league, now)
    require_scope(principal, Scope.ADMIN)
    return principal


async def visitor_validity(
    request: Request, league: Running, now: Annotated[Callable[[], Awaitable[datetime]], Depends(get_clock)]
) -> Callable[[], Awaitable[bool]]:
    """Return a function that checks whether the visitor's token is still valid, or none is needed."""
    signed_in, unneeded = (validity_check(league, secret, now) for secret in (_secret(request), None))

    async def is_valid() -> bool:
        return await signed_in() or await unneeded()

    return is_valid


Visitor = Annotated[Principal, Depends(visitor)]
Actor = Annotated[Principal, Depends(actor)]
VisitorValidity = Annotated[Callable[[], Awaitable[bool]], Depends(visitor_validity)]


def may_act(principal: Principal) -> bool:
    """Return whether pages offer changes to a visitor."""
    return principal.scope >= Scope.ADMIN


def is_signed_in(principal: Principal) -> bool:
    """Return whether the visitor has a token, as opposed to an open server."""
    return principal is not OPEN


def remember(request: Request, response: Response, secret: str, until: datetime | None) -> None:
    """Store the token in a cookie: this site only, inaccessible to scripts, and Secure with TLS."""
    response.set_cookie(
        cookie_at(request.url.port),
        secret,
        max_age=_MAX_AGE_S if until is None else None,
        expires=until,
        secure=request.url.scheme == "https",
        httponly=True,
        # Strict rather than lax: even a link from another site arrives without the token, so none of its requests can
        # act.
        samesite="strict",
    )


def forget(request: Request, response: Response) -> None:
    """Delete the token's cookie."""
    response.delete_cookie(cookie_at(request.url.port), httponly=True, samesite="strict")


def require_own_page(request: Request) -> None:
    """Reject a change that does not come from a page of this server (CSRF protection).

    Browsers send Sec-Fetch-Site. Over plain HTTP beyond loopback they do not, and the Origin is compared with the Host.

    Raises:
        ForbiddenError: The request comes from another origin or does not name one.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    host = request.headers.get("host")
    own = site == "same-origin" if site is not None else origin is not None and _host_port(origin) == host
    if not own:
        rule = "only the dashboard itself may send its forms"
        raise ForbiddenError(
            f"from {origin or 'an unknown page'!r:.120}", rule, "use the page, or the calls under /api/v1"
        )


def _secret(request: Request) -> str | None:
    """Return the token in the visitor's cookie."""
    return request.cookies.get(cookie_at(request.url.port))


def _host_port(origin: str) -> str | None:
    """Return HOST:PORT of an origin, or None if it is malformed."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
