"""Python client of the HTTP API: one method per operation, typed with `league.wire`, raising `league.errors`.

    league = LeagueClient("http://127.0.0.1:8000", token="...")
    for line in league.standings("mech-duel").items:
        print(line.rank, line.call_sign or line.name, line.rating, line.deviation)

A trainer of your own plays for a learner in a session:

    with attach("my-learner", environment="rps", worker="gpu-3") as session:
        for match in session.matches():
            session.report(match, score=play(match), decisions=1)

`LeagueClient(http=TestClient(app))` calls an application in the same process, without a socket.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from league import wire
from league.client.address import DEFAULT_URL, Address, find_league
from league.client.async_connection import AsyncConnection
from league.client.backoff import make_retry_gate
from league.client.calls.champions import ChampionCalls
from league.client.calls.checkpoints import CheckpointCalls
from league.client.calls.events import EventCalls
from league.client.calls.gates import GateCalls
from league.client.calls.learners import LearnerCalls
from league.client.calls.leases import LeaseCalls
from league.client.calls.matches import MatchCalls
from league.client.calls.players import PlayerCalls
from league.client.calls.runs import RunCalls
from league.client.calls.standings import StandingsCalls
from league.client.calls.workers import WorkerCalls
from league.client.run_info import RunInfo
from league.client.session import Match, Session, SessionSettings
from league.client.session.attach import AttachCalls

__all__ = [
    "DEFAULT_URL",
    "Address",
    "AsyncLeagueClient",
    "LeagueClient",
    "Match",
    "RunInfo",
    "Session",
    "SessionSettings",
    "attach",
    "find_league",
    "make_retry_gate",
]


class LeagueClient(AttachCalls, ChampionCalls, EventCalls, GateCalls, MatchCalls, StandingsCalls):
    """Client of one league server; thread-safe.

    Args:
        url: URL of the server; None: LEAGUE_URL, else the league that runs on the home folder (LEAGUE_HOME, or `var`),
            else http://127.0.0.1:8000.
        token: Bearer token; not needed without authentication.
        http: HTTP client to use instead of a new one for `url`; the caller closes it.
        timeout_s: Timeout for the connection and between two chunks of a response, in seconds.
        patience: Back-off for a busy server that sends Retry-After; None: up to 30 s per call. Calls before that time
            wait or fail without a request.

    Raises:
        ConfigurationError: The URL is not an HTTP URL.
        UnauthenticatedError: The token is malformed.
    """


class AsyncLeagueClient(
    AsyncConnection,
    ChampionCalls,
    CheckpointCalls,
    EventCalls,
    GateCalls,
    LearnerCalls,
    LeaseCalls,
    MatchCalls,
    PlayerCalls,
    RunCalls,
    StandingsCalls,
    WorkerCalls,
):
    """Client of one league server for asyncio, with the methods and the arguments of `LeagueClient` except `attach`.

    async with AsyncLeagueClient() as league:
        duel, tug = await asyncio.gather(league.standings("mech-duel"), league.standings("tug"))
    """


@contextmanager
def attach(
    learner: str | wire.LearnerCreate,
    *,
    environment: str | None = None,
    worker: str = "trainer",
    url: str | None = None,
    token: str | None = None,
    folder: Path | None = None,
    settings: SessionSettings | None = None,
    run: RunInfo | None = None,
) -> Iterator[Session]:
    """Attach this process to a league as a worker that trains a learner, until the `with` block ends.

    Args:
        learner: Name of a main learner, or the registration of a learner of any role.
        environment: Game that the league plays; None if it plays only one. To add a game to the league, pass a
            registration with its signature as `learner`.
        worker: Name of the worker. Workers that train one learner on one machine need different names.
        url: URL of the server; see `LeagueClient`.
        token: Bearer token; see `LeagueClient`.
        folder: Folder of the worker, from which the next start resumes; None: a folder in the home folder.
        settings: Settings of the session; None for the defaults.
        run: Settings and seed of this process, which the league stores with its origin; None for the origin alone.

    Raises:
        ConfigurationError: The environment is unknown, or another process is attached with this folder.
        LeagueError: The league cannot be reached, or rejects the registration.
    """
    with (
        LeagueClient(url, token) as client,
        client.attach(
            learner, environment=environment, worker=worker, folder=folder, settings=settings, run=run
        ) as session,
    ):
        yield session
