"""Import of a whole league from one file into an empty database and store."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, Table, func, insert, select, text

from league.db import locks, schema
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Replay
from league.errors import NewerArchiveError, OccupiedLeagueError
from league.services.operations.archive import ArchiveReader, Progress, Row, batches
from league.services.operations.export import tables_of
from league.storage.base import CheckpointStore
from league.storage.recordings import RecordingStore, is_key


def load(archive: ArchiveReader, database: Database, store: CheckpointStore, now: datetime, progress: Progress) -> None:
    """Import a league: first checkpoints and recordings, then all tables in one transaction with the schema's upgrade.

    If the import fails, the database is unchanged. Checkpoints and recordings imported so far stay in the store, and
    the next attempt skips the checkpoints.

    Args:
        archive: The league.
        database: Empty database to import into.
        store: Store to import checkpoints and recordings into.
        now: Time of the import.
        progress: Receives the progress.

    Raises:
        OccupiedLeagueError: The database has rows.
        NewerArchiveError: The tables have a newer schema.
        RefusedArchiveError: The archive is damaged or does not match its manifest.
    """
    revision = archive.manifest.revision
    if revision not in schema.revisions():
        rule = f"its tables have revision {revision}, but this version supports revisions up to {schema.head()}"
        raise NewerArchiveError(archive.path, rule, f"import it with version {archive.manifest.version} or newer")
    with database.engine.connect() as connection:
        _require_empty(database, connection)
    # Before the transaction: a failed copy leaves the database unchanged, and the next attempt skips what is stored.
    _load_checkpoints(archive, store, now, progress)
    _load_recordings(archive, store.recordings, progress)
    with database.write_connection() as connection:
        locks.acquire(connection, Lock.SCHEMA)
        # Checked again under the lock: another import may have finished while the bytes were copied.
        _require_empty(database, connection)
        # The archive's own revision first, because the rows have its columns.
        schema.upgrade_to(connection, revision)
        _load_tables(archive, connection, progress)
        schema.upgrade_to(connection, schema.head(), store.recordings.put)


def _require_empty(database: Database, connection: Connection) -> None:
    for table in tables_of(connection):
        if connection.execute(select(table).limit(1)).first() is not None:
            rule = f"its table {table.name} has rows, and leagues cannot be merged"
            raise OccupiedLeagueError(database, rule, "choose a folder or a database without a league")


def _load_checkpoints(archive: ArchiveReader, store: CheckpointStore, now: datetime, progress: Progress) -> None:
    checkpoints = archive.checkpoints
    if len(checkpoints) != archive.manifest.checkpoints:
        raise archive.refused(f"it has {len(checkpoints)} of {archive.manifest.checkpoints} checkpoints")
    for done, sha256 in enumerate(checkpoints, start=1):
        if not store.touch(sha256, now):
            with archive.checkpoint(sha256) as stream:
                store.put(sha256, stream)
        progress("checkpoints", done, len(checkpoints))


def _load_recordings(archive: ArchiveReader, store: RecordingStore, progress: Progress) -> None:
    keys = archive.recordings
    if len(keys) != archive.manifest.recordings:
        raise archive.refused(f"it has {len(keys)} of {archive.manifest.recordings} recordings")
    for done, key in enumerate(keys, start=1):
        if not is_key(key):
            raise archive.refused(f"{key!r:.100} is not the name of a recording")
        store.put(key, archive.recording(key))
        progress("recordings", done, len(keys))


def _load_tables(archive: ArchiveReader, connection: Connection, progress: Progress) -> None:
    tables = tables_of(connection)
    expected = archive.manifest.rows
    if {table.name for table in tables} != expected.keys():
        raise archive.refused(f"its tables do not match revision {archive.manifest.revision}")
    for table in tables:
        done = 0
        for batch in batches(archive.rows(table)):
            rows = batch if table.name != Replay.__tablename__ else _with_bytes(archive, batch)
            if rows:
                connection.execute(insert(table), rows)
            done += len(batch)
            progress(table.name, done, expected[table.name])
        if done != expected[table.name]:
            raise archive.refused(f"table {table.name} has {done} of {expected[table.name]} rows")
        _advance_sequences(connection, table)


def _with_bytes(archive: ArchiveReader, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of recordings, without those whose bytes were missing at the export."""
    missing, keys = set(archive.manifest.missing_recordings), set(archive.recordings)
    present = [row for row in rows if row["match_id"] not in missing]
    for row in present:
        if "key" in row and row["key"] not in keys:  # up to format 1 the rows contain the bytes
            raise archive.refused(f"it does not have the recording of match {row['match_id']}")
    return present


def _advance_sequences(connection: Connection, table: Table) -> None:
    """Set PostgreSQL's sequences to the last ids loaded; SQLite derives the next id from the table."""
    if connection.dialect.name != "postgresql":
        return
    for column in table.primary_key.columns:
        names = {"table": table.name, "column": column.name}
        sequence = connection.scalar(text("SELECT pg_get_serial_sequence(:table, :column)"), names)
        last = connection.scalar(select(func.max(column)))
        if sequence is not None and last is not None:
            connection.execute(select(func.setval(sequence, last)))
