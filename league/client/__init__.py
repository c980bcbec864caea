"""The league over HTTP: one method per call, typed with `league.wire`, raising `league.errors`.

    league = LeagueClient("http://127.0.0.1:8000", token="...")
    for line in league.standings("mech-duel").items:
        print(line.rank, line.call_sign or line.name, line.rating, line.deviation)

`LeagueClient(http=TestClient(app))` talks to an application in the same process, without a socket.
"""

from league.client.address import DEFAULT_URL, Address, find_league
from league.client.checkpoints import CheckpointCalls
from league.client.connection import patience_of
from league.client.gates import GateCalls
from league.client.leases import LeaseCalls
from league.client.players import PlayerCalls
from league.client.replays import ReplayCalls
from league.client.standings import StandingsCalls
from league.client.workers import WorkerCalls

__all__ = ["DEFAULT_URL", "Address", "LeagueClient", "find_league", "patience_of"]


class LeagueClient(WorkerCalls, CheckpointCalls, PlayerCalls, LeaseCalls, GateCalls, StandingsCalls, ReplayCalls):
    """A connection to one league server; safe to share between threads.

    Args:
        url: Where the server listens; None: LEAGUE_URL, else the league that runs on the home folder (LEAGUE_HOME, or
            `var`), else http://127.0.0.1:8000.
        token: Bearer token; needed unless the server is open.
        http: An HTTP client to use instead of one made for `url`; it stays the caller's to close.
        timeout_s: Longest wait for a connection, and between two pieces of an answer, in seconds.
        patience: How a server is waited out that is busy and says when to come back; None: up to 30 s a call. Calls of
            that kind made before its time are refused here, without troubling the server.

    Raises:
        ConfigurationError: The address is not one of HTTP.
        UnauthenticatedError: The token cannot be one.
    """
