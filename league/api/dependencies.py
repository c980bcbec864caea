"""FastAPI dependencies: the application state, the caller, the time, and annotated parameters."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, Path, Query, Request, Security

from league.api.authentication import authorise, find_principal, secret_of
from league.api.state import AppState
from league.auth import Principal, Scope
from league.errors import UnauthenticatedError

PAGE_MAX = 1000
ID_LIMIT = 2**63  # ids are signed 64-bit integers: the database driver would fail on a larger one
TEXT = r"^[^\x00]*$"
"""Pattern of text that both databases store: PostgreSQL rejects NUL."""


async def running_league(request: Request) -> AppState:
    """Return the state of the running application."""
    league: AppState = request.app.state.league
    return league


async def clock() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


async def get_clock() -> Callable[[], Awaitable[datetime]]:
    """Return the clock, for long-lived responses such as streams."""
    return clock


Running = Annotated[AppState, Depends(running_league)]
Secret = Annotated[str | None, Depends(secret_of)]
Now = Annotated[datetime, Depends(clock)]
Id = Annotated[int, Path(ge=1, lt=ID_LIMIT, description="Id, as shown in lists")]
Word = Annotated[str, Path(pattern=TEXT, description="Id, as returned when it was created")]
Filter = Annotated[str | None, Query(pattern=TEXT, description="Name of an environment")]
PlayerFilter = Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="Id of a player")]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="Maximum number of items")]
After = Annotated[int, Query(ge=0, lt=ID_LIMIT, description="`next_cursor` of the previous page")]
Before = Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="`next_cursor` of the previous page")]


async def token_check(
    league: Running, now: Annotated[Callable[[], Awaitable[datetime]], Depends(get_clock)], secret: Secret
) -> Callable[[], Awaitable[bool]]:
    """Return a function that checks whether the caller's token is still valid."""
    return validity_check(league, secret, now)


def validity_check(
    league: AppState, secret: str | None, now: Callable[[], Awaitable[datetime]]
) -> Callable[[], Awaitable[bool]]:
    """Return a function that checks whether a token's secret is still valid."""

    async def is_valid() -> bool:
        try:
            await find_principal(league, secret, await now())
        except UnauthenticatedError:
            return False
        return True

    return is_valid


Permission = Annotated[Callable[[], Awaitable[bool]], Depends(token_check)]


def _caller(scope: Scope) -> Callable[..., Awaitable[Principal]]:
    """Return a dependency that authenticates the caller, applies its rate limit and requires a scope."""

    async def authorised(request: Request, league: Running, now: Now, secret: Secret) -> Principal:
        return await authorise(request, league, secret, now, scope)

    return authorised


async def metrics_reader(request: Request, league: Running, now: Now, secret: Secret) -> Principal | None:
    """Authenticate the reader of the metrics; None if metrics are open."""
    if league.settings.metrics_open:
        return None
    return await authorise(request, league, secret, now, Scope.READ)


MetricsReader = Annotated[Principal | None, Security(metrics_reader, scopes=[Scope.READ.word])]
Reader = Annotated[Principal, Security(_caller(Scope.READ), scopes=[Scope.READ.word])]
Worker = Annotated[Principal, Security(_caller(Scope.WORKER), scopes=[Scope.WORKER.word])]
Admin = Annotated[Principal, Security(_caller(Scope.ADMIN), scopes=[Scope.ADMIN.word])]
