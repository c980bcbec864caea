"""Clients of the league, and the console, for commands."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

import torch
from rich.console import Console

from league.client import Address, LeagueClient, make_retry_gate
from league.errors import LeagueError, LeagueUnreachable
from league.private_files import TOKEN, read_secret
from trainer.checkpointing.run_directory import RunDirectory
from trainer.league_client.retrying_client import RetryingClient
from trainer.league_client.session import REGISTER_PAUSE_S
from trainer.monitoring.console import RunConsole
from trainer.shutdown import RunContext, ShutdownSignals

ANSWER_WITHIN_S = 3.0
"""Seconds to wait for a league at the default address; one that is being started answers within two."""

RATING_TIMEOUT_S = 10.0
RATING_BACKOFF_S = 30.0


def connect(league: str, token: str | None, timeout_s: float) -> LeagueClient:
    """Make a client of a league; the default token is that of the environment.

    Raises:
        ConfigurationError: LEAGUE_TOKEN_FILE names a file without a token, or the address is not an HTTP URL.
    """
    token = token or read_secret(TOKEN, os.environ)
    return LeagueClient(league, token=token, timeout_s=timeout_s, patience=make_retry_gate(0.0))


def names_league(league: str) -> bool:
    """Whether the address was given, or is that of a running league, and not the default."""
    return not isinstance(league, Address) or league.named


def answers(client: LeagueClient, run_context: RunContext) -> bool:
    """Whether a server answers within `ANSWER_WITHIN_S`, even with an error."""
    deadline = run_context.clock() + ANSWER_WITHIN_S
    while True:
        try:
            client.health()
        except LeagueUnreachable:
            if run_context.clock() >= deadline or run_context.stopping():
                return False
            run_context.pause(REGISTER_PAUSE_S)
        except LeagueError:
            return True
        else:
            return True


def make_retrying_client(client: LeagueClient, backoff_max_s: float, signals: ShutdownSignals) -> RetryingClient:
    """Make a client that retries while the league is unreachable."""
    rng = random.Random()  # noqa: S311  jitter
    return RetryingClient(
        client, clock=time.monotonic, rng=rng, backoff_max_s=backoff_max_s, call_context=signals.calling
    )


def make_console() -> RunConsole:
    """Make the console of a worker."""
    return RunConsole(Console(soft_wrap=True))


def version() -> str:
    """Return the version of this program."""
    return metadata.version("echelon-league")


@contextmanager
def rating_worker(
    folder: RunDirectory, league: str, token: str | None, signals: ShutdownSignals
) -> Iterator[tuple[RetryingClient, RunContext]]:
    """Lock the run folder of a worker that plays rating matches, and connect it to the league."""
    torch.set_num_threads(1)
    with signals.entered() as run_context, folder.locked(), connect(league, token, RATING_TIMEOUT_S) as client:
        yield make_retrying_client(client, RATING_BACKOFF_S, signals), run_context
