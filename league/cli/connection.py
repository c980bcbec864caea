"""Options of commands that ask a server: its address, its token, and players by name or id."""

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
        help="Where the league server listens.",
        show_default=SHOWN_URL,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar=TOKEN,
        show_envvar=True,
        help="Bearer token, or LEAGUE_TOKEN_FILE with it; an open league needs none.",
    ),
]
Environment = Annotated[
    str | None, typer.Option("--environment", help="The game; may be left out where the league has only one.")
]
AnyEnvironment = Annotated[str | None, typer.Option("--environment", help="Only this game.", show_default="all")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Who = Annotated[str, typer.Argument(metavar="PLAYER", help="A player's id, or its exact call-sign or name.")]

Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="Most rows to print.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on where an earlier list ended.")]

Row = TypeVar("Row")


class AmbiguousPlayerError(LeagueError):
    """Several players have this call-sign or name."""

    type: ClassVar[str] = "ambiguous-player"
    title: ClassVar[str] = "ambiguous player"
    status: ClassVar[int] = 409


def connect(url: str | None = None, token: str | None = None, timeout_s: float = 30.0) -> LeagueClient:
    """Open a client on the server at `url`, with the token that the environment says where none is given."""
    return LeagueClient(url, token=token or read_secret(TOKEN, os.environ), timeout_s=timeout_s)


def moment(text: str) -> datetime:
    """Read a time of the command line; without a zone it is this machine's."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"{text!r} is no time; say for example 2030-01-31T12:00") from error


def pages(fetch: Callable[[str | None], wire.Page[Row]]) -> Iterator[Row]:
    """Yield the rows of every page, asking for the next one as it is needed."""
    cursor = None
    while True:
        page = fetch(cursor)
        yield from page.items
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def champion_of(client: LeagueClient, environment: str | None) -> wire.Champion | None:
    """Return the champion of an environment; None where there is none."""
    try:
        return client.champion(environment)
    except UnknownChampionError:
        return None


def find_player(client: LeagueClient, who: str) -> wire.Player:
    """Find the player that a person means by an id, or by an exact call-sign or name.

    Raises:
        UnknownPlayerError: Nobody is called this.
        AmbiguousPlayerError: Several are, in different environments.
    """
    if who.isdecimal():
        return client.player(int(who))
    everyone = pages(lambda cursor: client.players(limit=1000, cursor=cursor))
    found = [player for player in everyone if who in (player.call_sign, player.name)]
    if not found:
        raise UnknownPlayerError(who, "no player has this call-sign or name", "`league players` lists them all")
    if len(found) > 1:
        ids = ", ".join(f"{player.id} ({player.environment})" for player in found)
        raise AmbiguousPlayerError(who, f"players {ids} are all called this", "name one by its id")
    return found[0]
