"""How commands reach the league, and a person."""

import os
import random
import time
from importlib import metadata

from rich.console import Console

from league.client import Address, LeagueClient, patience_of
from league.errors import LeagueError, LeagueUnreachable
from league.private_files import TOKEN, read_secret
from trainer.league_client.retrying_client import RetryingClient
from trainer.league_client.session import REGISTER_PAUSE_S
from trainer.monitoring.console import RunConsole
from trainer.shutdown import RunContext, ShutdownSignals

ANSWER_WITHIN_S = 3.0
"""How long a league is looked for at the default address; one that is being started answers within two."""


def connect(league: str, token: str | None, timeout_s: float) -> LeagueClient:
    """Connect to a league, with the token that the environment says where none is given.

    Raises:
        ConfigurationError: LEAGUE_TOKEN_FILE names a file without one, or the address is not one of HTTP.
    """
    token = token or read_secret(TOKEN, os.environ)
    return LeagueClient(league, token=token, timeout_s=timeout_s, patience=patience_of(0.0))


def names_league(league: str) -> bool:
    """Whether the address is the caller's or a running league's; the default address is only tried."""
    return not isinstance(league, Address) or league.named


def answers(client: LeagueClient, outside: RunContext) -> bool:
    """Whether a server answers at the client's address, trying for `ANSWER_WITHIN_S`; one that refuses answers, too."""
    deadline = outside.clock() + ANSWER_WITHIN_S
    while True:
        try:
            client.health()
        except LeagueUnreachable:
            if outside.clock() >= deadline or outside.stopping():
                return False
            outside.pause(REGISTER_PAUSE_S)
        except LeagueError:
            return True
        else:
            return True


def link_of(client: LeagueClient, backoff_max_s: float, signals: ShutdownSignals) -> RetryingClient:
    """A league that may be away."""
    rng = random.Random()  # noqa: S311  jitter
    return RetryingClient(
        client, clock=time.monotonic, rng=rng, backoff_max_s=backoff_max_s, call_context=signals.calling
    )


def open_terminal() -> RunConsole:
    """Tells a person how it goes."""
    return RunConsole(Console(soft_wrap=True))


def version() -> str:
    """Of this program."""
    return metadata.version("echelon-league")
