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
from league.config import Settings
from league.db.engine import Database
from league.db.models import Event
from league.errors import UnknownCheckpointError
from league.services import collection, players
from league.storage.directory import DirectoryStore
from league.storage.store import Leftover

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
    found = collection.survey(database, store, before)
    return [getattr(one, "sha256", None) or one.name for one in collection.collect(database, store, found, before)]


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
    found = collection.survey(database, store, before)
    assert {one.sha256 for one in found.needed} == {published.checkpoint, retired.checkpoint}
    assert [one.sha256 for one in found.unpublished] == [old]
    assert found.missing == []
    assert sorted(collect(database, store, before)) == sorted([old, f"{old[:2]}/.old.part", f"{old[:2]}/x.damaged"])
    kept = {file.name for file in folder.rglob("*") if file.is_file()}
    assert kept == {published.checkpoint, retired.checkpoint, young, ".young.part"}
    assert collect(database, store, before) == []


@pytest.mark.parametrize("how", ["finished", "interrupted", "killed"])
def test_what_a_collector_deleted_before_it_was_ended_is_in_the_audit_log(
    database: Database, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(collection, "NOTED_AT_ONCE", 2)
    names = [str(number) for number in range(5)]

    def delete() -> Iterator[Leftover]:
        yield from (Leftover(name, 10, NOW) for name in names)
        if how == "interrupted":
            raise KeyboardInterrupt

    collector = collection.noted(database, delete(), actor="keeper", now=NOW)
    if how == "killed":  # nothing more is heard of it after the fifth
        assert [next(collector).name for _ in names] == names
        assert noted(database) == [2, 2]
        return
    with suppress(KeyboardInterrupt):
        assert [one.name for one in collector] == names
    assert noted(database) == [2, 2, 1]


def noted(database: Database) -> list[int]:
    """Return how many objects each line of the audit log names that a collector wrote."""
    with database.read() as session:
        lines = session.scalars(select(Event).where(Event.kind == "gc").order_by(Event.id)).all()
    assert all(line.actor == "keeper" and line.details["bytes"] == 10 * line.details["objects"] for line in lines)
    return [line.details["objects"] for line in lines]


def test_what_is_published_after_the_survey_stays(
    scene: Scene, folder: Path, store: DirectoryStore, database: Database
) -> None:
    name = upload(scene.client, folder, 10, 48)
    before = datetime.now(UTC) + LATER
    found = collection.survey(database, store, before)
    scene.client.publish(wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=name, step=1))
    assert list(collection.collect(database, store, found, before)) == []
    assert store.sound(name)


def test_what_somebody_is_about_to_send_again_stays(
    scene: Scene, folder: Path, store: DirectoryStore, database: Database
) -> None:
    name = upload(scene.client, folder, 10, 48)
    before = datetime.now(UTC) - timedelta(hours=24)
    found = collection.survey(database, store, before)
    scene.client.upload(safetensors(10), name)
    assert list(collection.collect(database, store, found, before)) == []
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
        players.publish(session, settings, store, None, request, datetime.now(UTC))
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
    collector = Database(database_url)

    def collect_always() -> None:
        while not stopping.wait(0.005):  # else publishing has no turn
            before = datetime.now(UTC) + LATER
            found = replace(collection.survey(collector, store, before), leftovers=[])
            list(collection.collect(collector, store, found, before))

    thread = threading.Thread(target=collect_always)
    thread.start()
    try:
        published = [publish_patiently(scene, number) for number in range(12)]
    finally:
        stopping.set()
        thread.join()
        collector.close()
    assert all(store.sound(name) for name in published)
    assert collection.survey(database, store, datetime.now(UTC)).missing == []


def publish_patiently(scene: Scene, number: int) -> str:
    data = safetensors(number)
    while True:
        try:
            scene.client.upload(data, sha256(data))
            request = wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(data), step=number)
            return str(scene.client.publish(request).checkpoint)
        except UnknownCheckpointError:
            continue
