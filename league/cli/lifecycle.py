"""Change a snapshot's standing; the server validates the transition and records it in the audit log."""

from collections.abc import Callable
from typing import Annotated

import typer

from league import wire
from league.cli.connection import AsJson, PlayerArgument, Token, Url, champion_of, connect, find_player
from league.cli.output import tables
from league.client import DEFAULT_URL, LeagueClient

app = typer.Typer()

Reason = Annotated[str, typer.Option("--reason", help="Reason, stored in the audit log.")]
Transition = Callable[[LeagueClient, int, str, wire.Standing | None], wire.Player]


@app.command(epilog='Example: league promote 7 --reason "beats every baseline"')
def promote(
    player: PlayerArgument,
    reason: Reason = "",
    champion: Annotated[bool, typer.Option("--champion", help="Also make it the champion of its environment.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Promote a candidate to commander.

    A commander gets a call sign and remains an opponent permanently. The champion is an alias for one commander of
    each environment, so that scripts can refer to it. A champion that retires loses the title. After each rating
    period, a commander that is very probably better becomes champion.
    """
    if champion:
        _set_champion(player, reason, as_json, url, token)
    else:
        _change(LeagueClient.promote, player, reason, as_json, url, token)


@app.command(epilog='Example: league retire 7 --reason "superseded"')
def retire(
    player: PlayerArgument, reason: Reason = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Retire a snapshot; its matches and ratings stay."""
    _change(LeagueClient.retire, player, reason, as_json, url, token)


@app.command(epilog="Example: league reinstate 7")
def reinstate(
    player: PlayerArgument, reason: Reason = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Make a retired or quarantined snapshot a candidate again."""
    _change(LeagueClient.reinstate, player, reason, as_json, url, token)


@app.command(epilog='Example: league quarantine 7 --reason "exploits the zone bug"')
def quarantine(
    player: PlayerArgument, reason: Reason = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Quarantine a suspicious snapshot until you have examined it."""
    _change(LeagueClient.quarantine, player, reason, as_json, url, token)


@app.command(epilog='Example: league dismiss 7 --reason "it plays on every other machine"')
def dismiss(
    player: PlayerArgument, reason: Reason = "", as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Dismiss false reports that a snapshot cannot be played.

    The tokens that sent them are flagged. To confirm the reports instead, quarantine the snapshot.
    """
    with connect(url, token) as client:
        found = find_player(client, player)
        dismissed = client.dismiss_reports(found.id, reason)
    if as_json:
        tables.show_json(dismissed)
    else:
        flagged = ", ".join(sorted({each.token for each in dismissed.items if each.token is not None})) or "none"
        tables.show(f"{tables.display_name(found)}: {len(dismissed.items)} dismissed; flagged tokens: {flagged}")


def _change(transition: Transition, key: str, reason: str, as_json: bool, url: str, token: str | None) -> None:
    with connect(url, token) as client:
        before = find_player(client, key)
        champion = champion_of(client, before.environment)
        after = transition(client, before.id, reason, before.standing)
    name = tables.display_name(after)
    if as_json:
        tables.show_json(after)
    else:
        tables.show(f"{name}: {before.standing} -> {after.standing}")
        if champion is not None and champion.player.id == after.id and after.standing != "commander":
            tables.show(f"champion of {after.environment}: {name} -> none")


def _set_champion(key: str, reason: str, as_json: bool, url: str, token: str | None) -> None:
    with connect(url, token) as client:
        wanted = find_player(client, key)
        before = champion_of(client, wanted.environment)
        after = client.crown(wanted.id, reason, expected=None if before is None else before.player.id)
    if as_json:
        tables.show_json(after)
    else:
        old = "none" if before is None else tables.display_name(before.player)
        tables.show(f"champion of {after.environment}: {old} -> {tables.display_name(after.player)}")
