"""Look at the population: the league table, the list of players, one player."""

from collections import deque
from typing import Annotated

import typer

from league import wire
from league.cli import tables
from league.cli.connection import AsJson, Environment, Token, Url, Who, connect, find_player, pages
from league.client import DEFAULT_URL

app = typer.Typer()

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
    tables.show_page(page, as_json, tables.standings(page.items, page.items[0].environment if page.items else None))


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
    """Show one player: who it is, the end of its rating curve, and its latest matches."""
    with connect(url, token) as client:
        one = find_player(client, player)
        curve = deque(pages(lambda cursor: client.ratings(one.id, cursor=cursor)), maxlen=limit)
        log = client.matches(one.id, limit=limit).items
    if as_json:
        tables.show_json({"player": one, "ratings": curve, "matches": log})
    else:
        tables.show(tables.player(one), tables.ratings(curve, "rating periods"), tables.matches(log, "latest matches"))
