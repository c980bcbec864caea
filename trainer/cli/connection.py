"""How commands reach the league, and a person."""

import os
import random
import time
from importlib import metadata

import typer
from rich.console import Console

from league.client import DEFAULT_URL, LeagueClient, patience_of
from league.secret_files import TOKEN, secret
from trainer.link import Link
from trainer.surroundings import Signals
from trainer.terminal import Terminal


def connect(league: str, token: str | None, timeout_s: float) -> LeagueClient:
    """Connect to a league, with the token that the environment says where none is given.

    Raises:
        ConfigurationError: LEAGUE_TOKEN_FILE names a file without one.
        typer.BadParameter: The address is not one of HTTP.
    """
    if not league.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{league!r} is no http:// or https:// address; say for example {DEFAULT_URL}")
    token = token or secret(TOKEN, os.environ)
    return LeagueClient(league, token=token, timeout_s=timeout_s, patience=patience_of(0.0))


def link_of(client: LeagueClient, backoff_max_s: float, signals: Signals) -> Link:
    """A league that may be away."""
    rng = random.Random()  # noqa: S311  jitter
    return Link(client, clock=time.monotonic, rng=rng, backoff_max_s=backoff_max_s, calling=signals.calling)


def open_terminal() -> Terminal:
    """Tells a person how it goes."""
    return Terminal(Console(soft_wrap=True))


def version() -> str:
    """Of this program."""
    return metadata.version("echelon-league")
