"""Revision 0002 moves recordings from the database to the store, and loses none."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from league_scene import sha256
from schema_drift import differences
from sqlalchemy import Connection, DateTime, LargeBinary, MetaData, Table, insert, inspect, select
from sqlalchemy.types import JSON, Boolean, String

from league.db import schema
from league.db.engine import Database
from league.db.models import Replay
from league.services.operations import export, import_
from league.services.operations.archive import ArchiveReader
from league.services.replays import service as replays
from league.storage.local import DirectoryStore
from league.storage.recordings import RecordingStore

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CONTENTS = {1: b"\x1f\x8b first", 2: bytes(range(256)) * 400}


@pytest.fixture
def older(empty_database_url: str) -> Iterator[Database]:
    """A league of revision 0001 with recordings."""
    database = Database(empty_database_url)
    with database.write_connection() as connection:
        schema.upgrade_to(connection, "0001")
        _fill(connection)
    yield database
    database.close()


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "checkpoints", 2**20)


def _fill(connection: Connection) -> None:
    metadata = MetaData()
    metadata.reflect(connection)

    def add(name: str, /, **values: Any) -> None:
        table = metadata.tables[name]
        connection.execute(insert(table), _required(table) | values)

    add("environments", name="rps")
    add("workers", id="w", kind="evaluator", command="continue")
    for player_id in (1, 2):
        add("players", id=player_id, kind="baseline", environment="rps", name=f"player {player_id}")
    add("opponent_distributions", id="d")
    lease = {"kind": "rating", "environment": "rps", "home_id": 1, "away_id": 2, "worker_id": "w"}
    add("leases", id="l", state="open", draw_id="d", budget=2, **lease)
    for match_id, content in CONTENTS.items():
        add("matches", id=match_id, lease_id="l", sequence=match_id - 1, decisions=5, **lease)
        add("replays", match_id=match_id, sha256=sha256(content), size_bytes=len(content), content=content)


def _required(table: Table) -> dict[str, Any]:
    """Return a value for each column that needs one."""
    return {column.name: _some(column.type) for column in table.columns if not column.nullable}


def _some(kind: object) -> Any:
    if isinstance(kind, DateTime):
        return NOW
    if isinstance(kind, JSON):
        return {}
    if isinstance(kind, LargeBinary):
        return b""
    if isinstance(kind, Boolean):
        return False
    return "" if isinstance(kind, String) else 0


def moved(database: Database, store: RecordingStore) -> dict[int, bytes | None]:
    with database.read() as session:
        return {row.match_id: store.get(row.key) for row in session.execute(select(Replay.match_id, Replay.key))}


def test_upgrade_moves_recordings_to_the_store(older: Database, store: DirectoryStore) -> None:
    schema.upgrade(older, store.recordings.put)
    schema.check(older)
    assert moved(older, store.recordings) == CONTENTS
    assert list(replays.find_damaged(older, store.recordings)) == []
    with older.engine.connect() as connection:
        assert differences(connection) == []


def test_upgrade_without_a_usable_store_changes_nothing(older: Database) -> None:
    def fail(_key: str, _content: bytes) -> None:
        raise InterruptedError

    for put_recording, error in ((fail, InterruptedError), (None, RuntimeError)):
        with pytest.raises(error):
            schema.upgrade(older, put_recording)
        assert schema.revision(older) == "0001"
        with older.engine.connect() as connection:
            assert "content" in {column["name"] for column in inspect(connection).get_columns("replays")}


def test_archive_of_an_older_league_is_imported_with_its_recordings(
    older: Database, store: DirectoryStore, other_empty_url: str, tmp_path: Path
) -> None:
    export.export(older, store, tmp_path / "old.zip", NOW, lambda *_: None)
    other = Database(other_empty_url)
    with ArchiveReader(tmp_path / "old.zip") as archive:
        assert archive.manifest.revision == "0001"
        import_.load(archive, other, store, NOW, lambda *_: None)
    schema.check(other)
    assert moved(other, store.recordings) == CONTENTS
    other.close()
