"""Look at the population: the league table, the champion, the list of players, one player, what was done to them."""

from collections import deque
from typing import Annotated

import typer

from league import wire
from league.cli import tables
from league.cli.connection import AsJson, Environment, Token, Url, Who, champion_of, connect, find_player, pages
from league.client import DEFAULT_URL

app = typer.Typer()

_NOTHING_LOGGED = "nothing of the kind happened; --periods lists closed rating periods, too"

Standing = Annotated[wire.Standing | None, typer.Option("--standing", help="Only snapshots in this standing.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="Most rows to print.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on where an earlier list ended.")]


@app.command(epilog="Example: league standings --environment mech-duel --limit 10")
def standings(
    environment: Environment = None,
    standing: Standing = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_of: Annotated[int | None, typer.Option("--as-of", metavar="PERIOD", help="As of this period's id.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Print the league table, now or as of any past rating period; ranked by rating - 2 RD."""
    with connect(url, token) as client:
        page = client.standings(environment, standing=standing, limit=limit, cursor=cursor, as_of=as_of)
        champion = None if as_json or as_of is not None else champion_of(client, environment)
    tables.show_page(page, as_json, tables.standings(page.items, page.items[0].environment if page.items else None))
    if champion is not None:
        tables.show(tables.champion(champion))


@app.command(epilog="Example: league champion --environment mech-duel --history")
def champion(
    environment: Environment = None,
    history: Annotated[bool, typer.Option("--history", help="List who became champion when and why.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show a game's champion; `league promote PLAYER --champion` makes one, and so does the rule after a period."""
    with connect(url, token) as client:
        if history:
            page = client.champions(environment, limit=limit, cursor=cursor)
            tables.show_page(page, as_json, tables.champions(page.items))
            return
        one = client.champion(environment)
    if as_json:
        tables.show_json(one)
    else:
        tables.show(tables.player(one.player), tables.champion(one))


@app.command(epilog="Example: league players --kind snapshot --standing commander")
def players(
    environment: Environment = None,
    kind: Annotated[wire.Kind | None, typer.Option("--kind", help="Only players of this kind.")] = None,
    standing: Standing = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """List players by id: learners, their snapshots, and the scripted baselines."""
    with connect(url, token) as client:
        page = client.players(environment=environment, standing=standing, kind=kind, limit=limit, cursor=cursor)
    tables.show_page(page, as_json, tables.players(page.items))


@app.command(epilog="Example: league show 7")
def show(
    player: Who,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Most rating periods and matches.")] = 10,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show one player: who it is, the end of its rating curve, its latest matches, and what was done to it."""
    with connect(url, token) as client:
        one = find_player(client, player)
        curve = deque(pages(lambda cursor: client.ratings(one.id, cursor=cursor)), maxlen=limit)
        matches = client.matches(one.id, limit=limit).items
        changes = client.log(player_id=one.id, limit=limit).items
    if as_json:
        tables.show_json({"player": one, "ratings": curve, "matches": matches, "events": changes})
    else:
        curve_table, match_table = tables.ratings(curve, "rating periods"), tables.matches(matches, "latest matches")
        tables.show(tables.player(one), curve_table, match_table, tables.events(changes, "none", "latest changes"))


@app.command(epilog="Example: league log 7")
def log(
    player: Annotated[
        str | None, typer.Argument(metavar="[PLAYER]", help="Only of this player: its id, call-sign or name.")
    ] = None,
    environment: Environment = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Only events of this kind, such as promote.")] = None,
    periods: Annotated[bool, typer.Option("--periods", help="Closed rating periods, too.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Read the audit log, newest first: who changed what, when and why."""
    with connect(url, token) as client:
        player_id = None if player is None else find_player(client, player).id
        page = client.log(environment, player_id, kind, periods=periods, limit=limit, cursor=cursor)
    tables.show_page(page, as_json, tables.events(page.items, _NOTHING_LOGGED))
