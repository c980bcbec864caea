"""`league admin check`: compare the stored state with the match log."""

from collections.abc import Iterable
from datetime import UTC, datetime

import typer

from league.cli.connection import AnyEnvironment, AsJson
from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home
from league.cli.output import tables
from league.cli.output.durations import DAY
from league.cli.output.grid import Grid
from league.errors import InvariantError
from league.services.operations import integrity
from league.settings import Settings
from league.storage.factory import open_store

app = typer.Typer()


@app.command(epilog="Example: league admin check --json")
def check(
    environment: AnyEnvironment = None,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Check the league for inconsistencies.

    It checks references, matches, payoffs, ratings, states, checkpoints and recordings, and changes nothing. If it
    finds problems, it lists them and exits with 1. The server may run.
    """
    settings = Settings.load(home=home, database_url=database_url)
    store = open_store(settings)
    with database.current(settings) as connection:
        database.require_environment(connection, environment)
        unpublished_before = datetime.now(UTC) - DAY
        found = integrity.check(connection, store, environment, unpublished_before=unpublished_before)
    if as_json:
        tables.show_json({"items": found, "next_cursor": None})
    else:
        tables.show(violation_grid(found))
    if found:
        violated = ", ".join(sorted({one.invariant for one in found}))
        raise InvariantError(violated, f"{len(found)} invariants are violated", "see the list")


def violation_grid(found: Iterable[integrity.Violation]) -> Grid:
    """Return a table of violated invariants."""
    return Grid(
        [[], ["invariant", "environment", "finding"]],
        [[one.invariant, one.environment or tables.NONE, one.finding] for one in found],
        "OK: no problems found",
    )
