"""What no player needs is deleted, and nothing else, whoever publishes meanwhile."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, safetensors, sha256
from sqlalchemy import select

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Event
from league.errors import UnknownCheckpointError
from league.services.checkpoints import garbage_collection
from league.services.checkpoints.garbage_collection import Survey
from league.services.population import snapshots
from league.settings import Settings
from league.storage.base import Leftover, Stored
from league.storage.local import DirectoryStore
from league.storage.safetensors_header import Header

LATER = timedelta(days=2)
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def store(http: TestClient) -> DirectoryStore:
    kept: DirectoryStore = http.app.state.league.store
    return kept


def age(file: Path, hours: float) -> None:
    moment = datetime.now(UTC).timestamp() - hours * 3600
    os.utime(file, (moment, moment))


def upload(client: LeagueClient, folder: Path, content: int, hours: float) -> str:
    """Upload a checkpoint so many hours ago."""
    data = safetensors(content)
    client.upload(data, sha256(data))
    age(folder / sha256(data)[:2] / sha256(data), hours)
    return sha256(data)


def collect(database: Database, store: DirectoryStore, before: datetime) -> list[str]:
    found = garbage_collection.survey(database, store, before)
    return [getattr(one, "sha256", None) or one.name for one in collector(database, store, found, before)]


def collector(
    database: Database, store: DirectoryStore, found: Survey, before: datetime
) -> Iterator[Stored | Leftover]:
    return garbage_collection.collect(database, store, found, before, actor="keeper", now=NOW)


def test_only_old_checkpoints_without_a_player_and_old_leftovers_go(
    scene: Scene, folder: Path, store: DirectoryStore, database: Database
) -> None:
    published = scene.publish(1)
    retired = scene.publish(2)
    scene.client.promote(retired.id)
    scene.client.retire(retired.id)
    for player in (published, retired):
        age(folder / str(player.checkpoint)[:2] / str(player.checkpoint), 100)
    old, young = upload(scene.client, folder, 10, 48), upload(scene.client, folder, 11, 1)
    for name, hours in ((".old.part", 48), (".young.part", 1), ("x.damaged", 48)):
        (folder / old[:2] / name).write_bytes(b"1234")
        age(folder / old[:2] / name, hours)
    before = datetime.now(UTC) - timedelta(hours=24)
    found = garbage_collection.survey(database, store, before)
    assert {one.sha256 for one in found.needed} == {published.checkpoint, retired.checkpoint}
    assert [one.sha256 for one in found.unpublished] == [old]
    assert found.missing == []
    assert sorted(collect(database, store, before)) == sorted([old, f"{old[:2]}/.old.part", f"{old[:2]}/x.damaged"])
    kept = {file.name for file in folder.rglob("*") if file.is_file()}
    assert kept == {published.checkpoint, retired.checkpoint, young, ".young.part"}
    assert collect(database, store, before) == []


@pytest.mark.parametrize("cut_off", [False, True])
def test_nothing_is_deleted_that_the_audit_log_does_not_name_yet(
    scene: Scene,
    folder: Path,
    store: DirectoryStore,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    cut_off: bool,
) -> None:
    """So that it is there however the collector ends; one that is interrupted says what it left."""
    monkeypatch.setattr(garbage_collection, "NOTED_AT_ONCE", 2)
    names = {upload(scene.client, folder, number, 48) for number in range(5)}
    before = datetime.now(UTC) - timedelta(hours=24)
    deleted: list[str] = []
    remove = store.remove

    def remove_what_is_named(sha256: str, before: datetime) -> bool:
        assert any(sha256 in checkpoints for _, checkpoints in noted(database))
        if cut_off and len(deleted) == 3:
            raise KeyboardInterrupt
        deleted.append(sha256)
        return remove(sha256, before)

    monkeypatch.setattr(store, "remove", remove_what_is_named)
    with suppress(KeyboardInterrupt):
        assert set(collect(database, store, before)) == names
    lines = noted(database)
    if cut_off:
        assert [reason for reason, _ in lines] == ["", "", garbage_collection.STAYED]
        assert lines[-1][1] == lines[1][1][1:]
        return
    assert [(reason, len(checkpoints)) for reason, checkpoints in lines] == [("", 2), ("", 2), ("", 1)]
    assert [one for _, checkpoints in lines for one in checkpoints] == deleted


def noted(database: Database) -> list[tuple[str, list[str]]]:
    """Return the reason of each line of the audit log that a collector wrote, and the checkpoints that it names."""
    with database.read() as session:
        lines = session.scalars(select(Event).where(Event.kind == "gc").order_by(Event.id)).all()
    assert all(line.actor == "keeper" and line.details["objects"] == len(line.details["checkpoints"]) for line in lines)
    return [(line.reason, line.details["checkpoints"]) for line in lines]


def test_checkpoint_published_after_the_survey_is_not_collected(
    scene: Scene, folder: Path, store: DirectoryStore, database: Database
) -> None:
    name = upload(scene.client, folder, 10, 48)
    before = datetime.now(UTC) + LATER
    found = garbage_collection.survey(database, store, before)
    scene.client.publish(wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=name, step=1))
    assert list(collector(database, store, found, before)) == []
    assert store.sound(name)
    assert noted(database) == [("", [name]), (garbage_collection.STAYED, [name])]


def test_checkpoint_uploaded_again_after_the_survey_is_not_collected(
    scene: Scene, folder: Path, store: DirectoryStore, database: Database
) -> None:
    name = upload(scene.client, folder, 10, 48)
    before = datetime.now(UTC) - timedelta(hours=24)
    found = garbage_collection.survey(database, store, before)
    scene.client.upload(safetensors(10), name)
    assert list(collector(database, store, found, before)) == []
    assert store.sound(name)


def test_a_collector_waits_for_a_publication_that_has_begun(
    scene: Scene, folder: Path, store: DirectoryStore, database: Database, database_url: str
) -> None:
    name = upload(scene.client, folder, 10, 48)
    before = datetime.now(UTC) + LATER
    settings = Settings.load(database_url=database_url)
    gone: list[str] = []
    others = Database(database_url)
    thread = threading.Thread(target=lambda: gone.extend(collect(others, store, before)))
    with database.write() as session:
        request = wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=name, step=1)
        snapshots.publish(session, settings, store, Header({}, {}), request, datetime.now(UTC))
        thread.start()
        thread.join(0.5)  # without a lock it would be through by now
    thread.join()
    others.close()
    assert gone == []
    assert store.sound(name)


def test_publishing_races_with_collecting_and_no_player_is_without_bytes(
    scene: Scene, store: DirectoryStore, database: Database, database_url: str
) -> None:
    """The collector spares uploads on their way, as it always does, but deletes what came in a moment ago."""
    stopping = threading.Event()
    own = Database(database_url)

    def collect_always() -> None:
        while not stopping.wait(0.005):  # else publishing has no turn
            before = datetime.now(UTC) + LATER
            found = replace(garbage_collection.survey(own, store, before), leftovers=[])
            list(collector(own, store, found, before))

    thread = threading.Thread(target=collect_always)
    thread.start()
    try:
        published = [publish_patiently(scene, number) for number in range(12)]
    finally:
        stopping.set()
        thread.join()
        own.close()
    assert all(store.sound(name) for name in published)
    assert garbage_collection.survey(database, store, datetime.now(UTC)).missing == []


def publish_patiently(scene: Scene, number: int) -> str:
    data = safetensors(number)
    while True:
        try:
            scene.client.upload(data, sha256(data))
            request = wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(data), step=number)
            return str(scene.client.publish(request).checkpoint)
        except UnknownCheckpointError:
            continue
