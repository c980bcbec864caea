"""What endpoints are given: the running league, the caller and the time."""

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Annotated
from urllib.parse import urlsplit
from weakref import WeakSet

import numpy as np
from fastapi import Depends, Path, Query, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import URL

from league import wire
from league.api.event_feed import News
from league.api.group_commit import Commits
from league.api.metrics import Metrics
from league.api.rate_limit import REFUSED_COST, Callers
from league.auth import OPEN, Principal, Scope, digest
from league.db.engine import Database
from league.errors import ForbiddenError, UnauthenticatedError
from league.services.auth import tokens
from league.services.gates.sprt import GateEvaluator
from league.services.leaderboard.superiority import SuperiorityCache
from league.services.matchmaking.lease_cache import LeaseCache
from league.services.population.cache import PopulationCache
from league.services.trust.review import ReviewCache
from league.services.workers.heartbeats import Heartbeat
from league.services.workers.polling import WorkerCount
from league.services.workers.registration import Registration
from league.settings import Settings, is_loopback
from league.storage.inspection import Inspector
from league.storage.local import DirectoryStore
from league.storage.s3 import S3Store
from league.wire.request_class import lane_of

PAGE_MAX = 1000
ID_LIMIT = 2**63
TEXT = r"^[^\x00]*$"
"""What the databases store."""

_bearer = HTTPBearer(auto_error=False, description="A token of `league token create`")


class Stream:
    """An answer that goes on until its reader leaves."""


@dataclass(frozen=True)
class League:
    """What one API process holds; all truth is in the database and the store.

    Threads share `rng`, which locks itself: to make one for each call takes as long as a statement. `ending` is set
    when the process is told to end: answers without an end of their own, of which `streams` has one entry each, then
    end.
    """

    settings: Settings
    database: Database
    store: DirectoryStore | S3Store
    inspector: Inspector
    population: PopulationCache
    terms: LeaseCache
    comparisons: SuperiorityCache
    judge: GateEvaluator
    review: ReviewCache
    news: News
    census: WorkerCount
    metrics: Metrics
    callers: Callers
    beats: Commits[Heartbeat, wire.HeartbeatAnswer]
    registrations: Commits[Registration, wire.Worker]
    ending: threading.Event
    streams: WeakSet[Stream]
    rng: np.random.Generator


async def running_league(request: Request) -> League:
    """Return the league that the application serves."""
    league: League = request.app.state.league
    return league


async def clock() -> datetime:
    """Return the time of the call."""
    return datetime.now(UTC)


async def timepiece() -> Callable[[], Awaitable[datetime]]:
    """Return what tells the time to answers that last."""
    return clock


Running = Annotated[League, Depends(running_league)]
Now = Annotated[datetime, Depends(clock)]
Id = Annotated[int, Path(ge=1, lt=ID_LIMIT)]
Word = Annotated[str, Path(pattern=TEXT)]
Filter = Annotated[str | None, Query(pattern=TEXT)]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
After = Annotated[int, Query(ge=0, lt=ID_LIMIT, description="`next_cursor` of the page before")]
Before = Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="`next_cursor` of the page before")]


async def standing_permission(
    league: Running,
    now: Annotated[Callable[[], Awaitable[datetime]], Depends(timepiece)],
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Callable[[], Awaitable[bool]]:
    """Return what says, as often as it is asked, whether the caller's token is still one."""
    return lasting(league, None if credentials is None else credentials.credentials, now)


def lasting(
    league: League, secret: str | None, now: Callable[[], Awaitable[datetime]]
) -> Callable[[], Awaitable[bool]]:
    """Return what says whether a secret is still somebody's."""

    async def lasts() -> bool:
        try:
            await _principal(league, secret, await now())
        except UnauthenticatedError:
            return False
        return True

    return lasts


Permission = Annotated[Callable[[], Awaitable[bool]], Depends(standing_permission)]


async def secret_of(request: Request) -> str | None:
    """Return the token that came with a call."""
    credentials = await _bearer(request)
    return None if credentials is None else credentials.credentials


def _caller(scope: Scope) -> Callable[..., Awaitable[Principal]]:
    """Return a dependency that finds out who calls, counts the call and requires the scope."""

    async def authorised(
        request: Request,
        league: Running,
        now: Now,
        credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> Principal:
        return await authorise(request, league, None if credentials is None else credentials.credentials, now, scope)

    return authorised


async def authorise(request: Request, league: League, secret: str | None, now: datetime, scope: Scope) -> Principal:
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
        rule = f"its scope is {principal.scope.word}, the call needs {scope.word}"
        way_out = f"make a token with `league token create NAME --scope {scope.word}`"
        raise ForbiddenError(f"of token {principal.name!r}", rule, way_out)


async def identify(request: Request, league: League, secret: str | None, now: datetime) -> Principal:
    """Find out who calls; a token's calls are counted together, an open server's and refused ones by address.

    Raises:
        UnauthenticatedError: Nobody has the secret, or none came and the server is closed.
        ForbiddenError: The server is open and the call comes from a page of another site.
        RateLimitedError: The caller made too many calls of late.
    """
    address = f"address {request.client.host}" if request.client is not None else "an unknown address"
    try:
        principal = await _principal(league, secret, now)
    except UnauthenticatedError:
        league.callers.admit(address, None, now, REFUSED_COST)
        raise
    if principal is OPEN:
        _refuse_foreign_page(request)
    lane = lane_of(request.method, request.scope["path"])
    league.callers.admit(address if principal is OPEN else f"token {principal.name!r}", lane, now)
    return principal


async def _principal(league: League, secret: str | None, now: datetime) -> Principal:
    """Return who has a secret, as this process remembers it or as the database says.

    Raises:
        UnauthenticatedError: Nobody has it, or not any more.
    """
    key = None if secret is None else digest(secret)
    principal = league.callers.recall(key, now)
    if principal is None:
        principal = await league.callers.ask_once(key, partial(run_in_threadpool, _authenticate, league, secret, now))
        league.callers.remember(key, principal, now)
    return principal


def _authenticate(league: League, secret: str | None, now: datetime) -> Principal:
    """Ask the database, and write down now and then that a token was used."""
    with league.database.glance() as session:
        principal = tokens.authenticate(session.connection(), league.settings, secret, now)
    if principal is not OPEN and league.callers.use_to_note(principal.name, now):
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
    rule = "an open server takes calls from this machine only"
    way_out = "call it 127.0.0.1, or close it with `league token create NAME --scope admin` and send that token"
    return ForbiddenError(call, rule, way_out)


async def metrics_reader(
    request: Request,
    league: Running,
    now: Now,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Principal | None:
    """Find out who reads the metrics; None where anybody may."""
    if league.settings.metrics_open:
        return None
    return await authorise(request, league, None if credentials is None else credentials.credentials, now, Scope.READ)


MetricsReader = Annotated[Principal | None, Security(metrics_reader, scopes=[Scope.READ.word])]
Reader = Annotated[Principal, Security(_caller(Scope.READ), scopes=[Scope.READ.word])]
Worker = Annotated[Principal, Security(_caller(Scope.WORKER), scopes=[Scope.WORKER.word])]
Admin = Annotated[Principal, Security(_caller(Scope.ADMIN), scopes=[Scope.ADMIN.word])]
