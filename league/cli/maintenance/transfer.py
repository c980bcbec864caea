"""`league export` and `league import`: move a whole league through one file."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import TaskID

from arena.evaluation import results_file
from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home
from league.errors import ConfigurationError
from league.services.operations import export as operations_export
from league.services.operations import export_results, import_
from league.services.operations.archive import ArchiveReader, Manifest, Progress
from league.settings import Settings
from league.storage.factory import open_store

app = typer.Typer()

File = Annotated[Path, typer.Argument(metavar="FILE", help="A zip archive of JSON lines, checkpoints and recordings.")]


@app.command("export", epilog="Example: league export league.zip")
def export(
    file: File,
    allow_missing: Annotated[
        bool,
        typer.Option("--allow-missing", help="Omit missing and damaged checkpoints and recordings, and list them."),
    ] = False,
    without_replays: Annotated[bool, typer.Option("--without-replays", help="Omit recordings of matches.")] = False,
    results: Annotated[
        bool,
        typer.Option(
            "--results", help="Export only the results of one environment's rating matches, as JSON for `arena report`."
        ),
    ] = False,
    environment: Annotated[
        str | None,
        typer.Option("--environment", help="Environment of --results. Optional if the league has only one."),
    ] = None,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Export a whole league to one file.

    The file contains all current players, ratings, matches, recordings, leases, events and checkpoints. It contains
    only the hashes of tokens: they remain valid after an import, but cannot be read from the file. A league of an older
    version is exported unchanged, so you can make a backup before an upgrade. The server may run.
    """
    settings = Settings.load(home=home, database_url=database_url)
    if results:
        _export_results(settings, file, environment)
        return
    if environment is not None:
        raise typer.BadParameter("--environment requires --results, because an archive contains the whole league")
    with database.existing(settings) as connection, shown_progress() as progress:
        manifest = operations_export.export(
            connection,
            open_store(settings),
            file,
            datetime.now(UTC),
            progress,
            operations_export.ExportOptions(
                allow_missing=allow_missing,
                view=lambda _: operations_export.WITHOUT_REPLAYS if without_replays else operations_export.WHOLE,
            ),
        )
    typer.echo(f"{file}: {_summary(manifest)}, {file.stat().st_size:,} bytes")
    for sha256 in manifest.missing:
        typer.echo(f"omitted checkpoint {sha256}: missing or damaged in the store", err=True)
    for match_id in manifest.missing_recordings:
        typer.echo(f"omitted the recording of match {match_id}: missing or damaged in the store", err=True)


def _export_results(settings: Settings, file: Path, environment: str | None) -> None:
    if file.exists():
        raise ConfigurationError(f"file {file}", "it exists", "remove it or choose another name")
    with database.current(settings) as connection, connection.read() as session:
        found = export_results.read_results(session, settings, environment)
    results_file.write(file, found)
    games = int(found.games.games.sum())
    typer.echo(f"{file}: {games:,} rating matches of {len(found.names):,} players of {found.environment}")


@app.command("import", epilog="Example: league import league.zip --home /srv/league")
def import_league(file: File, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Import an exported league into an empty database.

    You can move between SQLite and PostgreSQL. The import is all or nothing, and a second attempt continues quickly.
    """
    if not file.is_file():
        rule = "it is a folder" if file.is_dir() else "no such file"
        raise ConfigurationError(f"file {file}", rule, "choose a file that `league export` wrote")
    settings = Settings.load(home=home, database_url=database_url)
    with (
        ArchiveReader(file) as archive,
        database.connected(settings) as connection,
        shown_progress() as progress,
    ):
        import_.load(archive, connection, open_store(settings), datetime.now(UTC), progress)
    typer.echo(f"{connection}: {_summary(archive.manifest)}")


def _summary(manifest: Manifest) -> str:
    rows = manifest.rows
    counts = ", ".join(f"{rows[table]:,} {table}" for table in ("players", "matches", "periods", "tokens"))
    return f"{counts} and {manifest.checkpoints:,} checkpoints of {manifest.exported_at:%Y-%m-%d %H:%M:%S %Z}"


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show progress bars if stderr is a terminal."""
    with Bars(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bars:
        tasks: dict[str, TaskID] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done)

        yield report
