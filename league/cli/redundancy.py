"""`league retire-redundant`: retire snapshots that another snapshot represents."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from league import wire
from league.cli.connection import AnyEnvironment, AsJson, Token, Url, connect
from league.cli.output import tables
from league.cli.output.grid import Grid, printable
from league.client import DEFAULT_URL, LeagueClient
from league.errors import StandingConflictError

app = typer.Typer()


@app.command("retire-redundant", epilog="Example: league retire-redundant --dry-run")
def retire_redundant(
    environment: AnyEnvironment = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the snapshots and change nothing.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Retire snapshots that score like another snapshot that is no weaker.

    If behaviour measurements of both exist, they must also play alike. Baselines, the champion and players with few
    games stay. The server's settings LEAGUE_REDUNDANCY_DISTANCE and LEAGUE_REDUNDANCY_BEHAVIOUR are the thresholds.
    With LEAGUE_RETIRE_REDUNDANT=true the server retires such snapshots after each period.
    """
    with connect(url, token) as client:
        found = client.redundant(environment)
        rows, conflicts = (found.items, []) if dry_run else _retire(client, found.items)
    tables.show_page(found.model_copy(update={"items": rows}), as_json, grid(found.items))
    if not as_json and found.items:
        tables.show("nothing changed; run without --dry-run to retire them" if dry_run else f"{len(rows)} retired")
    for conflict in conflicts:
        typer.echo(f"not retired: {printable(str(conflict))}", err=True)
    if conflicts:
        raise typer.Exit(1)


def _retire(
    client: LeagueClient, rows: Sequence[wire.Redundancy]
) -> tuple[list[wire.Redundancy], list[StandingConflictError]]:
    """Retire snapshots; return the retired ones and the errors of those whose standing changed concurrently."""
    retired, conflicts = [], []
    for row in rows:
        try:
            alike = "scores like it" if row.behaviour is None else "scores and plays like it"
            client.retire(row.player.player_id, f"{row.twin.name} {alike}", row.standing)
        except StandingConflictError as conflict:
            conflicts.append(conflict)
        else:
            retired.append(row)
    return retired, conflicts


def grid(rows: Iterable[wire.Redundancy]) -> Grid:
    """Return a table of redundant snapshots."""
    return Grid(
        [
            ["id"],
            ["player", "standing", "scores like", "environment"],
            ["difference", "at most", "opponents", "play differs (sd)", "measures"],
        ],
        [
            [
                *(str(row.player.player_id), row.player.name, row.standing, row.twin.name, row.environment),
                *(f"{row.distance:.3f}", f"{row.bound:.3f}", str(row.opponents)),
                *_play(row.behaviour),
            ]
            for row in rows
        ],
        "no redundant snapshots",
    )


def _play(behaviour: wire.Likeness | None) -> tuple[str, str]:
    return (tables.NONE, "0") if behaviour is None else (f"at most {behaviour.bound:.2f}", str(behaviour.measures))
