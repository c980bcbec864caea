"""`league retire-redundant`: snapshots that another one stands for."""

from collections.abc import Iterable
from typing import Annotated

import typer

from league import wire
from league.cli import tables
from league.cli.connection import AnyEnvironment, AsJson, Token, Url, connect
from league.cli.grid import Grid
from league.client import DEFAULT_URL

app = typer.Typer()


@app.command("retire-redundant", epilog="Example: league retire-redundant --dry-run")
def retire_redundant(
    environment: AnyEnvironment = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say who would retire, and leave them.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Retire the snapshots that another one, which is no weaker and stays, scores like against everybody both met.

    Baselines, the champion and players with few games stay. The server's LEAGUE_REDUNDANCY_DISTANCE says how much
    alike; with LEAGUE_RETIRE_REDUNDANT=true it retires them by itself after each period.
    """
    with connect(url, token) as client:
        page = client.redundant(environment)
        for row in () if dry_run else page.items:
            client.retire(row.player.player_id, f"{row.twin.name} scores like it", row.standing)
    tables.show_page(page, as_json, grid(page.items))
    if not as_json and page.items:
        tables.show("nothing was changed; without --dry-run they retire" if dry_run else f"{len(page.items)} retired")


def grid(rows: Iterable[wire.Redundancy]) -> Grid:
    """Make a list of redundant snapshots."""
    return Grid(
        [["id"], ["player", "standing", "scores like", "environment"], ["difference", "at most", "opponents"]],
        [
            [
                *(str(row.player.player_id), row.player.name, row.standing, row.twin.name, row.environment),
                *(f"{row.distance:.3f}", f"{row.bound:.3f}", str(row.opponents)),
            ]
            for row in rows
        ],
        "no snapshot is known to score like a better one",
    )
