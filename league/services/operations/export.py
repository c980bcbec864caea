"""Export of a whole league into one file: a consistent snapshot while its servers run."""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from glob import escape
from importlib.metadata import version
from pathlib import Path
from tempfile import mkstemp
from typing import IO, Any

from sqlalchemy import JSON, ColumnElement, Connection, MetaData, Select, Table, func, select, true
from sqlalchemy.orm import Session

from arena.atomic_files import sync_folder
from league.db import schema
from league.db.engine import Database
from league.db.models import Player
from league.errors import ConfigurationError, UnknownCheckpointError
from league.services.operations.archive import AT_ONCE, FORMAT, ArchiveWriter, Manifest, Progress, WrittenRow
from league.storage.base import CheckpointStore

_PART = ".part"


@dataclass(frozen=True, eq=False)
class View:
    """Rows and checkpoints to export.

    Attributes:
        tables: Rows by table, in order of the primary key, as a query or a list; other tables are exported whole.
        players: Condition on the players whose checkpoints are exported.
    """

    tables: Mapping[str, Select[Any] | Sequence[WrittenRow]]
    players: ColumnElement[bool]


WHOLE = View({}, true())
WITHOUT_REPLAYS = View({"replays": []}, true())


@dataclass(frozen=True)
class ExportOptions:
    """Content of an archive.

    Attributes:
        allow_missing: Omit checkpoints that the store lacks, and list them in the manifest.
        view: Returns the rows to export, given the session.
    """

    allow_missing: bool = False
    view: Callable[[Session], View] = lambda _: WHOLE


EVERYTHING = ExportOptions()


def export(
    database: Database,
    store: CheckpointStore,
    path: Path,
    now: datetime,
    progress: Progress,
    options: ExportOptions = EVERYTHING,
) -> Manifest:
    """Write tables and checkpoints into an archive, which appears at its path only when complete.

    The tables are read in one transaction, in the schema of the database, so you can archive a league before an
    upgrade. Tokens are exported as hashes.

    Args:
        database: Database of the league, at this version's schema or an older one.
        store: Its checkpoint store.
        path: The file to create; it must not exist.
        now: Time of the export.
        progress: Receives the progress.
        options: Content of the archive; everything by default.

    Returns:
        The manifest of the archive.

    Raises:
        OldDatabaseError: There is no league.
        NewerDatabaseError: The league belongs to a newer version.
        ConfigurationError: The file exists or cannot be written.
        UnknownCheckpointError: The store lacks a checkpoint of a player.
    """
    revision = schema.revision(database)
    with _atomic_file(path) as file, ArchiveWriter(file) as archive:
        with database.read() as session:
            chosen = options.view(session)
            rows = _write_tables(session.connection(), chosen, archive, progress)
            published = select(Player.checkpoint).where(Player.kind == "snapshot", chosen.players).distinct()
            hashes = [str(sha256) for sha256 in session.scalars(published.order_by(Player.checkpoint))]
        missing = _write_checkpoints(store, hashes, archive, progress, options.allow_missing)
        manifest = Manifest(
            format=FORMAT,
            revision=revision,
            version=version("echelon-league"),
            exported_at=now,
            rows=dict(sorted(rows.items())),
            checkpoints=len(hashes) - len(missing),
            missing=missing,
        )
        archive.write_manifest(manifest)
    return manifest


def tables_of(connection: Connection) -> list[Table]:
    """Return the tables of the database by reflection, each after those that it refers to."""
    metadata = MetaData()
    metadata.reflect(connection)
    for column in (column for table in metadata.sorted_tables for column in table.columns):
        if isinstance(column.type, JSON):
            column.type.none_as_null = True  # SQL NULL must not become JSON null
    return [table for table in metadata.sorted_tables if table.name != schema.VERSION_TABLE]


def _write_tables(connection: Connection, view: View, archive: ArchiveWriter, progress: Progress) -> dict[str, int]:
    counts = {}
    for table in tables_of(connection):
        chosen = view.tables.get(table.name)
        everything = select(table).order_by(*table.primary_key.columns)
        rows = _rows(connection, table.name, everything if chosen is None else chosen, progress)
        counts[table.name] = archive.write_table(table.name, rows)
    return counts


def _rows(
    connection: Connection, name: str, chosen: Select[Any] | Sequence[WrittenRow], progress: Progress
) -> Iterator[WrittenRow]:
    if not isinstance(chosen, Select):
        yield from chosen
        return
    count = connection.scalar(select(func.count()).select_from(chosen.order_by(None).subquery())) or 0
    done = 0
    for batch in connection.execute(chosen, execution_options={"yield_per": AT_ONCE}).mappings().partitions():
        yield from batch
        done += len(batch)
        progress(name, done, count)


def _write_checkpoints(
    store: CheckpointStore, hashes: list[str], archive: ArchiveWriter, progress: Progress, allow_missing: bool
) -> list[str]:
    missing = []
    for done, sha256 in enumerate(hashes, start=1):
        if _is_intact(store, sha256):
            with store.open(sha256) as stream:
                archive.write_checkpoint(sha256, stream)
        elif allow_missing:
            missing.append(sha256)
        else:
            rule = "a player uses it, but the store does not have it or has it damaged"
            way_out = "publish it again, or omit such checkpoints with --allow-missing"
            raise UnknownCheckpointError(sha256, rule, way_out)
        progress("checkpoints", done, len(hashes))
    return missing


def _is_intact(store: CheckpointStore, sha256: str) -> bool:
    try:
        return store.sound(sha256)
    except UnknownCheckpointError:
        return False


@contextmanager
def _atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that is renamed to `path` when the block succeeds, and deleted when it fails.

    Its file lock allows the next export to delete files of killed exports only.
    """
    if path.exists():
        raise ConfigurationError(f"file {path}", "it exists", "remove it or choose another name")
    try:
        _delete_abandoned(path)
        descriptor, name = mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_PART)
        part = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                # The operating system releases the lock with the process, even after SIGKILL.
                fcntl.flock(file, fcntl.LOCK_EX)
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        # A rename survives a power failure only after its folder is synced.
        sync_folder(path.parent)
    except OSError as error:
        rule = f"it cannot be written ({error.strerror or error})"
        raise ConfigurationError(f"file {path}", rule, "free some disk space or choose another file") from error


def _delete_abandoned(path: Path) -> None:
    """Delete temporary files of exports that were killed, that is those without a lock."""
    for part in path.parent.glob(f".{escape(path.name)}.*{_PART}"):
        with suppress(BlockingIOError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink(missing_ok=True)
