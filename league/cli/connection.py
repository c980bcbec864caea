"""Common options of commands that call a server: URL, token, environment and player."""

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Annotated, ClassVar, TypeVar

import typer

from league import wire
from league.client import LeagueClient
from league.client.address import URL_VARIABLE
from league.client.options import SHOWN_URL, locate_league
from league.errors import LeagueError, UnknownChampionError, UnknownPlayerError
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

Row = TypeVar("Row")


class AmbiguousPlayerError(LeagueError):
    """Several players have this call sign or name."""

    type: ClassVar[str] = "ambiguous-player"
    title: ClassVar[str] = "ambiguous player"
    status: ClassVar[int] = 409


def connect(url: str | None = None, token: str | None = None, timeout_s: float = 30.0) -> LeagueClient:
    """Return a client of the server at `url`; the token defaults to LEAGUE_TOKEN or LEAGUE_TOKEN_FILE."""
    return LeagueClient(url, token=token or read_secret(TOKEN, os.environ), timeout_s=timeout_s)


def moment(text: str) -> datetime:
    """Parse an ISO 8601 time; without a time zone it is local time."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"{text!r} is not an ISO 8601 time. Example: 2030-01-31T12:00") from error


def pages(fetch: Callable[[str | None], wire.Page[Row]]) -> Iterator[Row]:
    """Yield the rows of all pages, fetching each page on demand."""
    cursor = None
    while True:
        page = fetch(cursor)
        yield from page.items
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def champion_of(client: LeagueClient, environment: str | None) -> wire.Champion | None:
    """Return the champion of an environment, or None."""
    try:
        return client.champion(environment)
    except UnknownChampionError:
        return None


def find_player(client: LeagueClient, key: str) -> wire.Player:
    """Return the player with this id, exact call sign or exact name.

    Raises:
        UnknownPlayerError: No player matches.
        AmbiguousPlayerError: Players of several environments match.
    """
    if key.isdecimal():
        return client.player(int(key))
    players = pages(lambda cursor: client.players(limit=1000, cursor=cursor))
    found = [player for player in players if key in (player.call_sign, player.name)]
    if not found:
        raise UnknownPlayerError(key, "no player has this call sign or name", "`league players` lists them all")
    if len(found) > 1:
        ids = ", ".join(f"{player.id} ({player.environment})" for player in found)
        raise AmbiguousPlayerError(key, f"players {ids} have this name", "use the id of one of them")
    return found[0]
