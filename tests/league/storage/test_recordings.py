"""The contract of stores of recordings: a folder and a bucket return the bytes that they were given, or nothing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kept_stores import Kept
from league_scene import Scene
from recorded_match import play_recorded
from recordings import make_steps
from refused import refused

from league.client import LeagueClient
from league.db.engine import Database
from league.services.checkpoints import garbage_collection
from league.services.operations import integrity
from league.services.replays import service as replays
from league.settings import Settings
from league.storage.factory import open_store
from league.storage.recordings import RecordingFolder, RecordingStore, new_key

BYTES = b"\x1f\x8b\x08 recorded"


@pytest.fixture
def recordings(kept: Kept) -> RecordingStore:
    kept.store = open_store(Settings.load(**kept.settings))
    return kept.store.recordings


def test_recording_is_returned_unchanged_until_it_is_deleted(recordings: RecordingStore, kept: Kept) -> None:
    key = new_key(7)
    assert recordings.get(key) is None
    recordings.put(key, BYTES)
    assert recordings.get(key) == BYTES
    assert kept.names() == [f"replays/{key}"]
    recordings.put(key, b"other")
    assert recordings.get(key) == b"other"
    recordings.delete(key, new_key(8))
    assert recordings.get(key) is None
    assert kept.names() == []


def test_listing_has_all_recordings_and_no_checkpoints(recordings: RecordingStore, kept: Kept) -> None:
    assert list(recordings.listing()) == []
    start = datetime.now(UTC) - timedelta(seconds=2)
    keys = {new_key(number): bytes(number) for number in range(1, 6)}
    for key, content in keys.items():
        recordings.put(key, content)
    found = list(recordings.listing())
    assert {each.key: each.size_bytes for each in found} == {key: len(content) for key, content in keys.items()}
    assert all(start <= each.stored_at <= datetime.now(UTC) for each in found)
    assert list(kept.store.listing()) == []
    assert list(kept.store.leftovers(datetime.now(UTC) + timedelta(hours=1))) == []


def test_only_old_recordings_are_removed(recordings: RecordingStore) -> None:
    key, now = new_key(7), datetime.now(UTC)
    recordings.put(key, BYTES)
    assert not recordings.remove(key, now - timedelta(hours=1))
    assert recordings.get(key) == BYTES
    assert recordings.remove(key, now + timedelta(hours=1))
    assert recordings.get(key) is None
    assert recordings.remove(key, now)


def test_every_upload_has_its_own_key() -> None:
    assert len({new_key(7) for _ in range(100)}) == 100


@pytest.mark.parametrize("key", ["../league.db", "/etc/passwd", "a/b", "..", ".", "", "a\n"])
def test_keys_cannot_leave_the_folder(recordings: RecordingStore, key: str) -> None:
    for call in (recordings.get, recordings.delete, lambda key: recordings.put(key, BYTES)):
        with pytest.raises(ValueError, match="key"):
            call(key)


def test_file_of_a_killed_server_is_listed(tmp_path: Path) -> None:
    (tmp_path / ".7-ab.json.gz.0123456789abcdef").write_bytes(BYTES)
    (left,) = RecordingFolder(tmp_path).listing()
    assert left.size_bytes == len(BYTES)
    RecordingFolder(tmp_path).delete(left.key)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refused("store-unavailable", str(tmp_path / "file" / "replays")):
        RecordingFolder(tmp_path / "file" / "replays").put(new_key(7), BYTES)


def test_server_keeps_recordings_of_matches_in_its_store(league: LeagueClient, kept: Kept, database: Database) -> None:
    scene, later = Scene(league), datetime.now(UTC) + timedelta(hours=1)
    scene.publish(1)
    match = play_recorded(scene, make_steps())
    data = league.replay(match.id)
    (stored,) = kept.store.recordings.listing()
    assert kept.store.recordings.get(stored.key) == data
    kept.store.recordings.put("7-ab.json.gz", b"orphan")
    found = garbage_collection.survey(database, kept.store, later)
    list(garbage_collection.collect(database, kept.store, found, later, actor="me", now=later))
    assert list(kept.store.recordings.listing()) == [stored]
    assert integrity.check(database, kept.store, unpublished_before=later) == []
    kept.overwrite(f"replays/{stored.key}", b"damaged")
    assert [file.match_id for file in replays.find_damaged(database, kept.store.recordings)] == [match.id]
    with refused("unknown-replay", match.id):
        league.replay(match.id)
