"""`league admin gc`: delete unused checkpoints and recordings.

It opens the database and the store directly, on the server's machine.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from league.cli.connection import AsJson
from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home, user_name
from league.cli.output import durations, tables
from league.cli.output.durations import HOUR
from league.cli.output.grid import Grid
from league.errors import DamagedStoreError
from league.services.checkpoints import garbage_collection
from league.services.checkpoints.garbage_collection import Survey, Unused
from league.services.replays import service as replays
from league.settings import Settings
from league.storage.base import Leftover, Stored
from league.storage.factory import open_store
from league.storage.recordings import FOLDER

app = typer.Typer()

DEFAULT_AGE = "24h"
SHORTEST = HOUR
"""Upload URLs are valid for an hour, so a younger object may belong to an upload in progress."""

OlderThan = Annotated[
    str,
    typer.Option("--older-than", metavar="SPAN", help="Keep younger objects. Units are h, d and w, for example 30d."),
]


@app.command("gc", epilog="Example: league admin gc --dry-run")
def collect_garbage(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the deletions without doing them.")] = False,
    older_than: OlderThan = DEFAULT_AGE,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Also verify every remaining object. Without --dry-run, damaged checkpoints are moved aside.",
        ),
    ] = False,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Delete checkpoints that no player uses, recordings without a match, and unfinished uploads.

    Retired players also keep their checkpoints. If a player's checkpoint is missing or damaged, the command exits with
    1, with --verify also if a recording is. The server may run.
    """
    age = durations.parse_span(older_than, "--older-than", SHORTEST)
    settings = Settings.load(home=home, database_url=database_url)
    now = datetime.now(UTC)
    before = now - age
    store = open_store(settings)
    with database.current(settings) as connection:
        store.check()
        found = garbage_collection.survey(connection, store, before)
        deleted = found.deletable
        if not dry_run:
            deleted = list(garbage_collection.collect(connection, store, found, before, actor=user_name(), now=now))
        recordings = list(replays.find_damaged(connection, store.recordings)) if verify else []
    damaged = (
        [stored.sha256 for stored in garbage_collection.damaged(store, found, move_aside=not dry_run)] if verify else []
    )
    damaged += [f"{FOLDER}/{file.key}" for file in recordings]
    if as_json:
        tables.show_json(_report(found, deleted, damaged, dry_run=dry_run))
    else:
        tables.show(grid(deleted), *_summary(found, deleted, dry_run=dry_run))
    lost = [*found.missing, *damaged]
    if lost:
        rule = f"{len(found.missing)} checkpoints of players are missing and {len(damaged)} objects are damaged"
        raise DamagedStoreError(str(store), f"{rule}: {', '.join(lost)}", "restore them from a backup of the store")


def _report(found: Survey, deleted: list[Unused], damaged: list[str], *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "items": [{"name": name_of(one), "size_bytes": one.size_bytes} for one in deleted],
        "bytes": sum(one.size_bytes for one in deleted),
        "kept": len(found.needed),
        "kept_bytes": sum(one.size_bytes for one in found.needed),
        "missing": found.missing,
        "damaged": damaged,
    }


def _summary(found: Survey, deleted: list[Unused], *, dry_run: bool) -> list[str]:
    freed, used = (decimal(sum(one.size_bytes for one in ones)) for ones in (deleted, found.needed))
    verb = "would free" if dry_run else "freed"
    return [f"{verb} {freed} in {len(deleted)} objects; players use {used} in {len(found.needed)} checkpoints"]


def grid(rows: Iterable[Unused]) -> Grid:
    """Return a table of unused objects."""
    return Grid(
        [[], ["object"], ["bytes"], ["last modified"]],
        [
            [
                *(name_of(row), f"{row.size_bytes:,}"),
                tables.moment(row.touched_at if isinstance(row, Leftover) else row.stored_at),
            ]
            for row in rows
        ],
        "nothing to delete: all objects are in use or too young",
    )


def name_of(one: Unused) -> str:
    """Return a checkpoint's hash, or the path of another object in the store."""
    if isinstance(one, Stored):
        return one.sha256
    return one.name if isinstance(one, Leftover) else f"{FOLDER}/{one.key}"
