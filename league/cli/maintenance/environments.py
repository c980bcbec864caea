"""`league environment`: create, list and delete environments; opens the database directly."""

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from league.cli.connection import AsJson
from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home, user_name
from league.cli.maintenance.transfer import shown_progress
from league.cli.output import tables
from league.cli.output.grid import Grid
from league.db.engine import Database
from league.errors import EnvironmentConflictError
from league.services.environments import deletion as environment_deletion
from league.services.environments import listing as environment_listing
from league.services.environments.deletion import EnvironmentContents
from league.services.operations import export
from league.settings import Settings
from league.storage.factory import open_store

app = typer.Typer(help="Create, list and delete environments.", no_args_is_help=True)

EnvironmentArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the environment, for example mech-duel.")
]
Archive = Annotated[
    Path | None, typer.Option("--export", metavar="FILE", help="Export the whole league to this file first.")
]
AllowMissing = Annotated[bool, typer.Option("--allow-missing", help="Export without missing and damaged checkpoints.")]
Force = Annotated[bool, typer.Option("--force", help="Delete the environment with its matches. Requires --export.")]


@app.command(epilog="Example: league environment create mech-duel")
def create(name: EnvironmentArgument, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Create an environment, so that worker tokens may register learners of it.

    An open league creates environments automatically. If the environment exists, the command does nothing, so start
    scripts may run it every time.
    """
    settings = Settings.load(home=home, database_url=database_url)
    database.migrate(settings)
    with database.connected(settings) as connection, connection.write() as session:
        new = environment_listing.create(session, name, actor=user_name(), now=datetime.now(UTC))
    typer.echo(f"created {name}: worker tokens may register learners of it" if new else f"{name} already exists")


@app.command("list", epilog="Example: league environment list")
def list_environments(as_json: AsJson = False, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """List all environments by name, with their numbers of learners, players and matches."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.read() as session:
        found = environment_listing.list_environments(session, sys.maxsize - 1).items
        rows = [
            each.model_dump(mode="json") | {"matches": environment_listing.count_matches(session, each.name)}
            for each in found
        ]
    if as_json:
        tables.show_json({"items": rows, "next_cursor": None})
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
    """Delete an environment permanently with its learners, players, ratings and leases.

    An environment with matches requires --force and --export, which exports the whole league first. If matches arrive
    after the export, nothing is deleted. The audit log stays, and `league admin gc` deletes the checkpoints.
    """
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection:
        with connection.read() as session:
            holdings = environment_deletion.survey(session, name)
        _require_allowed(name, holdings, force, archive)
        if archive is not None:
            _export(settings, connection, archive, allow_missing=allow_missing)
        exported = None if archive is None else holdings
        deleted = environment_deletion.remove(connection, name, exported, actor=user_name(), now=datetime.now(UTC))
    counts = f"{deleted.learners:,} learners, {deleted.players:,} players and {deleted.matches:,} matches"
    typer.echo(f"deleted {name}: {counts}; `league admin gc` deletes their checkpoints")


def _require_allowed(name: str, holdings: EnvironmentContents, force: bool, archive: Path | None) -> None:
    """Refuse to delete matches without --force and --export.

    Raises:
        EnvironmentConflictError: The environment has matches, and an option is missing.
    """
    if holdings.matches and not (force and archive):
        missing = " ".join(word for word, given in (("--force", force), ("--export FILE", archive)) if not given)
        rule = f"it has {holdings.matches:,} matches, which would be deleted with it"
        remedy = f"add `{missing}`: the whole league is exported to FILE before anything is deleted"
        raise EnvironmentConflictError(name, rule, remedy)


def _export(settings: Settings, connection: Database, file: Path, *, allow_missing: bool) -> None:
    with shown_progress() as progress:
        manifest = export.export(
            connection,
            open_store(settings),
            file,
            datetime.now(UTC),
            progress,
            export.ExportOptions(allow_missing=allow_missing),
        )
    typer.echo(f"{file}: the whole league, {file.stat().st_size:,} bytes; restore it with `league import`")
    for sha256 in manifest.missing:
        typer.echo(f"omitted checkpoint {sha256}: missing or damaged in the store", err=True)


def grid(rows: Iterable[Mapping[str, Any]]) -> Grid:
    """Return a table of environments."""
    return Grid(
        [[], ["environment"], ["learners", "players", "matches"]],
        [[row["name"], f"{row['learners']:,}", f"{row['players']:,}", f"{row['matches']:,}"] for row in rows],
        "no environments; `league environment create NAME` creates one, and so does a learner in an open league",
    )
