"""Common options of commands that call a server: URL, token, environment and player."""

import os
from datetime import datetime
from typing import Annotated

import typer

from league import wire
from league.client import LeagueClient
from league.client.address import URL_VARIABLE
from league.client.options import SHOWN_URL, locate_league
from league.errors import UnknownChampionError
from league.private_files import TOKEN, read_secret

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar=URL_VARIABLE,
        callback=locate_league,
        help="URL of the league server.",
        show_default=SHOWN_URL,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar=TOKEN,
        show_envvar=True,
        help="Bearer token, or set LEAGUE_TOKEN_FILE to a file with it. Not needed without authentication.",
    ),
]
Environment = Annotated[
    str | None, typer.Option("--environment", help="Environment. Optional if the league has only one.")
]
AnyEnvironment = Annotated[str | None, typer.Option("--environment", help="Only this environment.", show_default="all")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
PlayerArgument = Annotated[str, typer.Argument(metavar="PLAYER", help="A player's id, exact call sign or exact name.")]

Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of rows.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Continue after a previous page: its next cursor.")]


def connect(url: str | None = None, token: str | None = None, timeout_s: float = 30.0) -> LeagueClient:
    """Return a client of the server at `url`; the token defaults to LEAGUE_TOKEN or LEAGUE_TOKEN_FILE."""
    return LeagueClient(url, token=token or read_secret(TOKEN, os.environ), timeout_s=timeout_s)


def moment(text: str) -> datetime:
    """Parse an ISO 8601 time; without a time zone it is local time."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"{text!r} is not an ISO 8601 time. Example: 2030-01-31T12:00") from error


def champion_of(client: LeagueClient, environment: str | None) -> wire.Champion | None:
    """Return the champion of an environment, or None."""
    try:
        return client.champion(environment)
    except UnknownChampionError:
        return None
