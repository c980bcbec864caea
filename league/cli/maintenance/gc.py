"""Look after the checkpoints of a league; works on its database and its store, where the server runs."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from league.cli.connection import AsJson
from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home, person
from league.cli.output import durations, tables
from league.cli.output.durations import HOUR
from league.cli.output.grid import Grid
from league.errors import DamagedStoreError
from league.services.checkpoints import garbage_collection
from league.services.checkpoints.garbage_collection import Survey
from league.settings import Settings
from league.storage.base import Leftover, Stored
from league.storage.factory import open_store

app = typer.Typer()

YOUNG = "24h"
SHORTEST = HOUR
"""Addresses to upload to last an hour: what is younger may still be on its way."""

OlderThan = Annotated[
    str,
    typer.Option("--older-than", metavar="SPAN", help="Keep what is younger: 12h, 30d or 8w, always with the unit."),
]


@app.command("gc", epilog="Example: league gc --dry-run")
def collect_garbage(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")] = False,
    older_than: OlderThan = YOUNG,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Also read every checkpoint that is kept; without --dry-run set damaged ones aside."
        ),
    ] = False,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Delete checkpoints that no player uses, and unfinished uploads.

    Players keep their checkpoints, even when they are retired. If a player's checkpoint is missing or damaged, the
    command exits with 1. The server may run.
    """
    age = durations.read(older_than, "--older-than", SHORTEST)
    settings = Settings.load(home=home, database_url=database_url)
    now = datetime.now(UTC)
    before = now - age
    store = open_store(settings)
    with database.current(settings) as connection:
        store.check()
        found = garbage_collection.survey(connection, store, before)
        gone = found.deletable
        if not dry_run:
            gone = list(garbage_collection.collect(connection, store, found, before, actor=person(), now=now))
    damaged = (
        [stored.sha256 for stored in garbage_collection.damaged(store, found, set_aside=not dry_run)] if verify else []
    )
    if as_json:
        tables.show_json(_account(found, gone, damaged, dry_run=dry_run))
    else:
        tables.show(grid(gone), *_summary(found, gone, dry_run=dry_run))
    wrong = [*found.missing, *damaged]
    if wrong:
        rule = f"players have {len(found.missing)} checkpoints that are missing and {len(damaged)} that are damaged"
        raise DamagedStoreError(str(store), f"{rule}: {', '.join(wrong)}", "put them back from a copy of the store")


def _account(found: Survey, gone: list[Stored | Leftover], damaged: list[str], *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "items": [{"name": name_of(one), "size_bytes": one.size_bytes} for one in gone],
        "bytes": sum(one.size_bytes for one in gone),
        "kept": len(found.needed),
        "kept_bytes": sum(one.size_bytes for one in found.needed),
        "missing": found.missing,
        "damaged": damaged,
    }


def _summary(found: Survey, gone: list[Stored | Leftover], *, dry_run: bool) -> list[str]:
    freed, kept = (decimal(sum(one.size_bytes for one in ones)) for ones in (gone, found.needed))
    verb = "would free" if dry_run else "freed"
    return [f"{verb} {freed} in {len(gone)} objects; players have {kept} in {len(found.needed)} checkpoints"]


def grid(rows: Iterable[Stored | Leftover]) -> Grid:
    """Make a list of bytes that nobody needs."""
    return Grid(
        [[], ["object"], ["bytes"], ["last touched"]],
        [
            [
                *(name_of(row), f"{row.size_bytes:,}"),
                tables.moment(row.stored_at if isinstance(row, Stored) else row.touched_at),
            ]
            for row in rows
        ],
        "every object of the store is needed, or too young to tell",
    )


def name_of(one: Stored | Leftover) -> str:
    """Name a checkpoint by its hash, a leftover by its place in the store."""
    return one.sha256 if isinstance(one, Stored) else one.name
