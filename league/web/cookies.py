"""Session cookie of the dashboard: a token that no script can read and no other site can send."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response

from league.api.authentication import identify, require_scope
from league.api.dependencies import Now, Running, lasting, timepiece
from league.auth import OPEN, Principal, Scope
from league.errors import ForbiddenError, UnauthenticatedError

COOKIE = "league_token"
_KEPT_S = 90 * 86400


def cookie_at(port: int | None) -> str:
    """Return what the token's cookie is called at an address with this port, None where it has none.

    Browsers share cookies among all ports of a machine, where several leagues may be.
    """
    return COOKIE if port is None else f"{COOKIE}_{port}"


async def visitor(request: Request, league: Running, now: Now) -> Principal:
    """Find out who reads a page; every token may read.

    A browser may have the token of a league that was served here before: it is as good as none.

    Raises:
        UnauthenticatedError: Nobody is signed in, and the league is closed.
    """
    secret = _secret(request)
    if secret is not None:
        with suppress(UnauthenticatedError):
            return await identify(request, league, secret, now)
    return await identify(request, league, None, now)


async def actor(request: Request, league: Running, now: Now) -> Principal:
    """Find out who changes something, on one of our own pages and with an admin token."""
    require_own_page(request)
    principal = await visitor(request, league, now)
    require_scope(principal, Scope.ADMIN)
    return principal


async def visitor_lasts(
    request: Request, league: Running, now: Annotated[Callable[[], Awaitable[datetime]], Depends(timepiece)]
) -> Callable[[], Awaitable[bool]]:
    """Return what says whether the token of the cookie is still one, or none is needed."""
    signed_in, unneeded = (lasting(league, secret, now) for secret in (_secret(request), None))

    async def lasts() -> bool:
        return await signed_in() or await unneeded()

    return lasts


Visitor = Annotated[Principal, Depends(visitor)]
Actor = Annotated[Principal, Depends(actor)]
VisitorLasts = Annotated[Callable[[], Awaitable[bool]], Depends(visitor_lasts)]


def may_act(principal: Principal) -> bool:
    """Say whether pages offer changes to somebody."""
    return principal.scope >= Scope.ADMIN


def is_signed_in(principal: Principal) -> bool:
    """Say whether somebody has a token, and not only an open server."""
    return principal is not OPEN


def remember(request: Request, response: Response, secret: str, until: datetime | None) -> None:
    """Have the browser keep a token: for this site alone, out of reach of scripts, and over TLS only where there is."""
    response.set_cookie(
        cookie_at(request.url.port),
        secret,
        max_age=_KEPT_S if until is None else None,
        expires=until,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def forget(request: Request, response: Response) -> None:
    """Have the browser drop its token."""
    response.delete_cookie(cookie_at(request.url.port), httponly=True, samesite="strict")


def require_own_page(request: Request) -> None:
    """Refuse a change that no page of this server asks for.

    Browsers say whether page and server are of one origin; where they do not (plain HTTP beyond loopback), they name
    the page's origin.

    Raises:
        ForbiddenError: It comes from elsewhere, or does not say where from.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    host = request.headers.get("host")
    own = site == "same-origin" if site is not None else origin is not None and _place(origin) == host
    if not own:
        rule = "only the dashboard itself may send its forms"
        raise ForbiddenError(
            f"from {origin or 'an unknown page'!r:.120}", rule, "use the page, or the calls under /api/v1"
        )


def _secret(request: Request) -> str | None:
    """Return the token that a browser keeps."""
    return request.cookies.get(cookie_at(request.url.port))


def _place(origin: str) -> str | None:
    """Return HOST:PORT of an origin; None where it is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
