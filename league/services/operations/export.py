"""Export of a whole league into one file: a consistent snapshot while its servers run."""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
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
from league.db.models import Player, Replay
from league.errors import ConfigurationError, UnknownCheckpointError, UnknownReplayError
from league.services.operations.archive import AT_ONCE, FORMAT, ArchiveWriter, Manifest, Progress, WrittenRow
from league.services.replays import service as replays
from league.services.replays.service import ReplayFile
from league.storage.base import CheckpointStore
from league.storage.recordings import RecordingStore

_PART = ".part"


@dataclass(frozen=True, eq=False)
class View:
    """Rows and checkpoints to export; recordings are those of the rows.

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
        allow_missing: Omit checkpoints and recordings that the store lacks, and list them in the manifest.
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
    """Write tables, checkpoints and recordings into an archive, which appears at its path only when complete.

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
        UnknownReplayError: The store lacks a recording of a match.
    """
    revision = schema.revision(database)
    with _atomic_file(path) as file, ArchiveWriter(file) as archive:
        # One snapshot of all tables. Checkpoints follow outside of it, because they never change.
        with database.read() as session:
            chosen = options.view(session)
            rows, recorded = _write_tables(session.connection(), chosen, archive, progress)
            published = select(Player.checkpoint).where(Player.kind == "snapshot", chosen.players).distinct()
            hashes = [str(sha256) for sha256 in session.scalars(published.order_by(Player.checkpoint))]
        missing = _write_checkpoints(store, hashes, archive, progress, options.allow_missing)
        source = _Recordings(database, store.recordings, options.allow_missing)
        missing_recordings = source.write(recorded, archive, progress)
        manifest = Manifest(
            format=FORMAT,
            revision=revision,
            version=version("echelon-league"),
            exported_at=now,
            rows=dict(sorted(rows.items())),
            checkpoints=len(hashes) - len(missing),
            missing=missing,
            recordings=len(recorded) - len(missing_recordings),
            missing_recordings=missing_recordings,
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


def _write_tables(
    connection: Connection, view: View, archive: ArchiveWriter, progress: Progress
) -> tuple[dict[str, int], list[ReplayFile]]:
    """Write all tables; return their numbers of rows, and the recordings to which the rows refer."""
    counts, recorded = {}, list[ReplayFile]()
    for table in tables_of(connection):
        chosen = view.tables.get(table.name)
        everything = select(table).order_by(*table.primary_key.columns)
        rows = _rows(connection, table.name, everything if chosen is None else chosen, progress)
        if table.name == Replay.__tablename__ and "key" in table.columns:  # older tables contain the bytes
            rows = _noting(rows, recorded)
        counts[table.name] = archive.write_table(table.name, rows)
    return counts, recorded


def _noting(rows: Iterable[WrittenRow], recorded: list[ReplayFile]) -> Iterator[WrittenRow]:
    for row in rows:
        recorded.append(ReplayFile(*(row[each.name] for each in fields(ReplayFile))))
        yield row


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
            remedy = "publish it again, or omit such checkpoints with --allow-missing"
            raise UnknownCheckpointError(sha256, rule, remedy)
        progress("checkpoints", done, len(hashes))
    return missing


@dataclass(frozen=True)
class _Recordings:
    """Source of the recordings of an archive."""

    database: Database
    store: RecordingStore
    allow_missing: bool

    def write(self, recorded: Sequence[ReplayFile], archive: ArchiveWriter, progress: Progress) -> list[int]:
        """Write recordings; return the matches of missing ones, such as those that retention has deleted meanwhile."""
        missing = []
        for done, file in enumerate(recorded, start=1):
            data = file.read(self.store)
            if data is not None:
                archive.write_recording(file.key, data)
            elif self.allow_missing or not replays.exists(self.database, file):
                missing.append(file.match_id)
            else:
                rule = f"the store does not have its bytes {file.key}, or has them damaged"
                remedy = "restore them from a backup, or omit such recordings with --allow-missing"
                raise UnknownReplayError(file.match_id, rule, remedy)
            progress("recordings", done, len(recorded))
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
