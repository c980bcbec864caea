"""Python client of the HTTP API: one method per operation, typed with `league.wire`, raising `league.errors`.

    league = LeagueClient("http://127.0.0.1:8000", token="...")
    for line in league.standings("mech-duel").items:
        print(line.rank, line.call_sign or line.name, line.rating, line.deviation)

`LeagueClient(http=TestClient(app))` calls an application in the same process, without a socket.
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
