"""What a worker token may send into the store is bounded, on its way and altogether."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, safetensors, sha256
from refused import refused

from league.auth import OPEN, Principal, Scope
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import LeagueError, QuotaExceededError, UnfinishedUploadsError
from league.services.checkpoints import garbage_collection, quotas
from league.settings import Settings
from league.storage.factory import open_store

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SIZE = len(safetensors())
LIMITS = {
    "checkpoint_max_bytes": SIZE,
    "token_unfinished_max_bytes": 2 * SIZE,
    "token_stored_max_bytes": 3 * SIZE,
}
ANN = Principal("ann", Scope.WORKER)


@pytest.fixture
def http(serve: Callable[..., TestClient]) -> TestClient:
    return serve(**LIMITS)


@pytest.fixture
def settings(configure: Callable[..., Settings]) -> Settings:
    return configure(**LIMITS)


def send(client: LeagueClient, *contents: int) -> None:
    for content in contents:
        data = safetensors(content)
        client.upload(data, sha256(data))


def put(http: TestClient, client: LeagueClient, data: bytes, name: str | None = None) -> int:
    """Send bytes as a program does that asks nothing first; in pieces, so that their number is not known."""
    pieces: Iterator[bytes] = iter([data[:20], data[20:]])
    return http.put(f"/api/v1/checkpoints/{name or sha256(data)}", content=pieces, headers=client._headers).status_code


def test_a_token_stores_as_much_as_it_may_and_others_and_admins_go_on(
    http: TestClient, connect: Callable[..., LeagueClient]
) -> None:
    ann, bob, boss = connect("worker", "ann"), connect("worker", "bob"), connect("admin", "boss")
    send(ann, 1, 2, 3, 1, 2, 3)
    with refused("quota-exceeded", "ann", "LEAGUE_TOKEN_STORED_MAX_BYTES") as refusal:
        send(ann, 4)
    assert refusal.value.status == 413
    assert put(http, ann, safetensors(4)) == 413
    assert put(http, bob, safetensors(4)) == 201
    send(ann, 4)  # it is there
    send(boss, 5, 6, 7, 8)


def test_the_same_bytes_count_once_and_a_refused_upload_not_at_all(
    http: TestClient, connect: Callable[..., LeagueClient]
) -> None:
    ann = connect("worker", "ann")
    for _ in range(3):
        assert put(http, ann, safetensors(1)) == 201
        assert put(http, ann, safetensors(2), "0" * 64) == 422
    send(ann, 2, 3)
    with pytest.raises(QuotaExceededError):
        send(ann, 4)


def test_collected_checkpoints_no_longer_count_toward_the_quota(
    http: TestClient, connect: Callable[..., LeagueClient], database: Database, settings: Settings
) -> None:
    ann = connect("worker", "ann")
    send(ann, 1, 2, 3)
    store, later = open_store(settings), datetime.now(UTC) + timedelta(days=1)
    found = garbage_collection.survey(database, store, later)
    assert len(list(garbage_collection.collect(database, store, found, later, actor="me", now=later))) == 3
    send(ann, 4, 5, 6)


def test_quota_is_corrected_after_a_killed_garbage_collection(
    http: TestClient,
    connect: Callable[..., LeagueClient],
    database: Database,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ann = connect("worker", "ann")
    send(ann, 1, 2, 3)
    store, later = open_store(settings), NOW + timedelta(days=1)
    with monkeypatch.context() as killed:
        killed.setattr(quotas, "forget", interrupt)
        going = garbage_collection.collect(
            database, store, garbage_collection.survey(database, store, later), later, actor="me", now=later
        )
        with pytest.raises(KeyboardInterrupt):
            next(going)
    with pytest.raises(QuotaExceededError):
        send(ann, 4)
    left = garbage_collection.survey(database, store, later)
    assert len(list(garbage_collection.collect(database, store, left, later, actor="me", now=later))) == 2
    send(ann, 4, 5, 6)
    nothing_old = garbage_collection.survey(database, store, datetime.now(UTC) - timedelta(days=1))
    assert list(garbage_collection.collect(database, store, nothing_old, later, actor="me", now=later)) == []
    with pytest.raises(QuotaExceededError):  # what is there still counts
        send(ann, 7)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_announced_bytes_count_until_they_come_or_their_address_ends(database: Database, settings: Settings) -> None:
    def announce(name: str, now: datetime = NOW, caller: Principal = ANN) -> None:
        with database.write() as session:
            quotas.announce(session, settings, quotas.Upload(caller, name, SIZE, now))

    for name in ("a", "b", "a"):
        announce(name)
    with refused("unfinished-uploads", "LEAGUE_TOKEN_UNFINISHED_MAX_BYTES") as refusal:
        announce("c")
    assert (refusal.value.status, refusal.value.retry_after_s) == (429, 10)
    with database.write() as session:
        quotas.note_arrival(session, "a", NOW)
    announce("c")
    for name in ("d", "e", "f", "g"):
        announce(name, caller=OPEN)
    with pytest.raises(QuotaExceededError):
        announce("d")
    later = NOW + quotas.ABANDONED
    announce("d", later)
    announce("e", later)
    with pytest.raises(QuotaExceededError):
        announce("f", later)


def test_bytes_that_arrive_after_their_time_count(database: Database, settings: Settings) -> None:
    late = NOW + quotas.ABANDONED
    with database.write() as session:
        quotas.announce(session, settings, quotas.Upload(ANN, "slow", SIZE, NOW))
        quotas.announce(session, settings, quotas.Upload(ANN, "a", SIZE, late))
        quotas.note_arrival(session, "slow", late)
        quotas.announce(session, settings, quotas.Upload(ANN, "b", SIZE, late))
        with refused("quota-exceeded", f"{3 * SIZE:,}"):
            quotas.announce(session, settings, quotas.Upload(ANN, "c", SIZE, late))


@ON_SQLITE
def test_an_upload_that_the_garbage_collector_ends_writes_nothing(database: Database, settings: Settings) -> None:
    under_way = quotas.counted(database, settings, open_store(settings), quotas.Upload(ANN, "0" * 64, 2 * SIZE, NOW))
    under_way.__enter__()
    del under_way
    with database.write() as session, pytest.raises(UnfinishedUploadsError):
        quotas.require_room(session, settings, ANN, SIZE, NOW)


def test_of_many_uploads_at_once_no_more_are_taken_than_fit(
    database: Database, settings: Settings, database_url: str
) -> None:
    def announce(number: int) -> bool:
        own = Database(database_url)
        try:
            with own.write() as session:
                quotas.announce(session, settings, quotas.Upload(ANN, f"{number}", SIZE, NOW))
        except LeagueError:
            return False
        finally:
            own.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(announce, range(8))) == 2


@ON_SQLITE
def test_an_upload_that_is_cut_off_counts_no_more(database: Database, settings: Settings) -> None:
    def cut_off(content: int) -> None:
        name = sha256(safetensors(content))
        with quotas.counted(database, settings, open_store(settings), quotas.Upload(ANN, name, SIZE, NOW)):
            raise ConnectionResetError

    for content in range(9):
        with pytest.raises(ConnectionResetError):
            cut_off(content)
    with database.write() as session:
        quotas.require_room(session, settings, ANN, 2 * SIZE, NOW)


@ON_SQLITE
def test_an_open_league_is_not_bounded(http: TestClient) -> None:
    scene: Any = Scene(LeagueClient(http=http))
    send(scene.client, *range(6))
