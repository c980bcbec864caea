"""Create, list and delete environments; works on the league's database, where the server runs."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from league.cli.connection import AsJson
from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home, person
from league.cli.maintenance.transfer import shown_progress
from league.cli.output import tables
from league.cli.output.grid import Grid
from league.db.engine import Database
from league.errors import EnvironmentConflictError
from league.services.environments import deletion as environment_deletion
from league.services.environments import listing as environment_listing
from league.services.environments.deletion import Holdings
from league.services.environments.listing import EnvironmentListing
from league.services.operations import export
from league.settings import Settings
from league.storage.factory import open_store

app = typer.Typer(help="Create, list and delete environments.", no_args_is_help=True)

EnvironmentArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the environment, such as mech-duel.")]
Archive = Annotated[
    Path | None, typer.Option("--export", metavar="FILE", help="Export the whole league into this file first.")
]
AllowMissing = Annotated[
    bool, typer.Option("--allow-missing", help="Export without checkpoints that the store lost or damaged.")
]
Force = Annotated[bool, typer.Option("--force", help="Delete it with its matches; needs --export.")]


@app.command(epilog="Example: league environment create mech-duel")
def create(name: EnvironmentArgument, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Let worker tokens register learners of an environment; in a closed league they create none themselves.

    Nothing is done where the environment is there already: what starts a league may run this every time.
    """
    settings = Settings.load(home=home, database_url=database_url)
    database.migrate(settings)
    with database.connected(settings) as connection, connection.write() as session:
        new = environment_listing.create(session, name, actor=person(), now=datetime.now(UTC))
    typer.echo(f"created {name}: worker tokens may register learners of it" if new else f"{name} is there already")


@app.command("list", epilog="Example: league environment list")
def list_environments(as_json: AsJson = False, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """List all environments by name, with the number of their learners, players and matches."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.read() as session:
        rows = environment_listing.listing(session)
    if as_json:
        tables.show_json({"items": [asdict(row) for row in rows], "next_cursor": None})
    else:
        tables.show(grid(rows))


@app.command(epilog="Example: league environment delete mech-dual")
def delete(
    name: EnvironmentArgument,
    force: Force = False,
    archive: Archive = None,
    allow_missing: AllowMissing = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Delete an environment with its learners, players, ratings and leases, for good; the server may run.

    One that has matches is deleted with --force, after the whole league was exported into the file of --export. Nothing
    is deleted where something was added meanwhile. The audit log stays, and `league gc` deletes the checkpoints.
    """
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection:
        with connection.read() as session:
            held = environment_deletion.survey(session, name)
        _require_allowed(name, held, force, archive)
        if archive is not None:
            _export(settings, connection, archive, allow_missing=allow_missing)
        exported = None if archive is None else held
        gone = environment_deletion.remove(connection, name, exported, actor=person(), now=datetime.now(UTC))
    counts = f"{gone.learners:,} learners, {gone.players:,} players and {gone.matches:,} matches"
    typer.echo(f"deleted {name}: {counts}; `league gc` frees the bytes of their checkpoints")


def _require_allowed(name: str, held: Holdings, force: bool, archive: Path | None) -> None:
    """Refuse to delete matches that nobody asked to delete, or without a copy.

    Raises:
        EnvironmentConflictError: There are matches, and one of both options is missing.
    """
    if held.matches and not (force and archive):
        missing = " ".join(word for word, given in (("--force", force), ("--export FILE", archive)) if not given)
        rule = f"it has {held.matches:,} matches, which would be deleted with it"
        way_out = f"add `{missing}`: the whole league is exported into FILE before anything is deleted"
        raise EnvironmentConflictError(name, rule, way_out)


def _export(settings: Settings, connection: Database, file: Path, *, allow_missing: bool) -> None:
    with shown_progress() as progress:
        manifest = export.export(
            connection, open_store(settings), file, datetime.now(UTC), progress, allow_missing=allow_missing
        )
    typer.echo(f"{file}: the whole league, {file.stat().st_size:,} bytes; `league import` takes it back elsewhere")
    for sha256 in manifest.missing:
        typer.echo(f"left out: checkpoint {sha256}, which the store lost or damaged", err=True)


def grid(rows: Iterable[EnvironmentListing]) -> Grid:
    """Make a list of environments."""
    return Grid(
        [[], ["environment"], ["learners", "players", "matches"]],
        [[row.name, f"{row.learners:,}", f"{row.players:,}", f"{row.matches:,}"] for row in rows],
        "there is none yet; `league environment create NAME` creates one, and so does a learner in an open league",
    )
