"""Recordings are taken in where they show the match, given out as they came, and let go when there are too many."""

import gzip
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from league_scene import ON_SQLITE, Scene, result
from refused import refused
from sqlalchemy import select

from arena.replay import Header, Result, StepsRecording, pack_recording, unpack_recording
from arena.replay.recording import Step
from league import wire
from league.app import periodic_tasks
from league.background.retention import ReplayRetentionTask
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Replay
from league.errors import (
    ForbiddenError,
    LeagueError,
    RefusedReplayError,
    UnknownMatchError,
    UnknownReplayError,
)
from league.services.checkpoints import garbage_collection
from league.services.replays import service as replays
from league.services.replays.service import ReplayService, StoredReplay
from league.settings import ReplayConfig, Settings
from league.storage.local import DirectoryStore
from league.storage.recordings import RecordingFolder, new_key

Connect = Callable[..., LeagueClient]


def recording_of(match: wire.Match, signature: str = "rps-1", **changes: Any) -> StepsRecording:
    """The recording of a match of two agents in which nothing much happened."""
    header = Header(
        format="echelon-replay",
        version=1,
        environment=match.environment,
        signature=signature,
        seed=match.seed,
        players=(match.home.name, match.away.name),
        agents_per_side=(1, 1),
        roles=("player", "player"),
        max_decisions=5,
        outcome=Result(match.score, match.reason, match.decisions),
    )
    step = Step((True, True), {"choice": (0.0, 1.0)}, (0.0, 0.0))
    return StepsRecording("steps", replace(header, **changes), (step,) * match.decisions)


def play(scene: Scene, count: int = 1) -> list[wire.Match]:
    """Report matches against others; return them as the league has them."""
    leases = scene.opponent_leases(count)
    return [
        scene.client.match(int(answer.match_id or 0)) for answer in scene.report(*(result(each) for each in leases))
    ]


@pytest.fixture
def store(tmp_path: Path) -> RecordingFolder:
    """Where the test's servers keep recordings."""
    return RecordingFolder(tmp_path / "checkpoints" / "replays")


def stored_keys(store: RecordingFolder) -> set[str]:
    return {each.key for each in store.listing()}


def row_keys(database: Database) -> set[str]:
    with database.read() as session:
        return set(session.scalars(select(Replay.key)))


@pytest.fixture
def match(scene: Scene) -> wire.Match:
    (played,) = play(scene)
    return played


# --- in and out ------------------------------------------------------------------------------------------------------


def test_replay_is_returned_unchanged(scene: Scene, match: wire.Match) -> None:
    data = pack_recording(recording_of(match))
    stored = scene.client.upload_replay(match.id, data)
    assert (stored.match_id, stored.size_bytes) == (match.id, len(data))
    assert scene.client.upload_replay(match.id, data) == stored, "again is fine"
    assert not match.recorded
    assert scene.client.match(match.id).recorded
    assert scene.client.replay(match.id) == data


def test_replay_response_is_gzip_encoded_and_cacheable(scene: Scene, match: wire.Match, http: TestClient) -> None:
    recording = recording_of(match)
    scene.client.upload_replay(match.id, pack_recording(recording))
    path = f"/api/v1/matches/{match.id}/replay"
    answer = http.get(path)
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Content-Type"] == "application/json"
    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.json()["header"]["seed"] == str(match.seed)
    again = http.get(path, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_matches_without_a_recording_and_matches_that_are_none_are_named(scene: Scene, match: wire.Match) -> None:
    with refused("unknown-replay", match.id):
        scene.client.replay(match.id)
    data = pack_recording(recording_of(match))
    with pytest.raises(UnknownMatchError):
        scene.client.replay(match.id + 1)
    with pytest.raises(UnknownMatchError):
        scene.client.upload_replay(match.id + 1, data)


def test_the_first_recording_of_a_match_stays(scene: Scene, match: wire.Match) -> None:
    first = recording_of(match)
    scene.client.upload_replay(match.id, pack_recording(first))
    other = replace(first, steps=(replace(first.steps[0], rewards=(1.0, 1.0)), *first.steps[1:]))
    with refused("replay-conflict", match.id):
        scene.client.upload_replay(match.id, pack_recording(other))
    assert unpack_recording(scene.client.replay(match.id), "stored") == first


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"environment": "chess"}, ("chess", "rps")),
        ({"signature": "rps-2"}, ("rps-2", "rps-1")),
        ({"players": ("main", "nobody")}, ("nobody",)),
        ({"seed": 1}, (1,)),
    ],
)
@ON_SQLITE
def test_a_recording_of_another_match_is_refused(
    scene: Scene, match: wire.Match, changes: dict[str, Any], values: tuple[object, ...]
) -> None:
    with refused("refused-replay", *values):
        scene.client.upload_replay(match.id, pack_recording(recording_of(match, **changes)))
    with pytest.raises(UnknownReplayError):
        scene.client.replay(match.id)


@pytest.mark.parametrize(
    ("field", "value"), [("score", 0.25), ("reason", "timeout"), ("decisions", 4)], ids=["score", "reason", "decisions"]
)
@ON_SQLITE
def test_a_recording_with_another_outcome_is_refused(
    scene: Scene, match: wire.Match, field: str, value: float | str
) -> None:
    other = match.model_copy(update={field: value})
    with refused("refused-replay", field):
        scene.client.upload_replay(match.id, pack_recording(recording_of(other)))


@pytest.mark.parametrize("data", [b"", b"hello", gzip.compress(b'{"header": 3}', mtime=0)])
@ON_SQLITE
def test_invalid_replay_file_is_rejected(scene: Scene, match: wire.Match, data: bytes) -> None:
    with refused("refused-replay", match.id):
        scene.client.upload_replay(match.id, data)


@ON_SQLITE
def test_a_recording_that_is_too_large_is_refused_unread(serve: Callable[..., TestClient]) -> None:
    scene = Scene(LeagueClient(http=serve(replays=ReplayConfig(upload_max_bytes=100))))
    (match,) = play(scene)
    with refused("too-large", 100, "LEAGUE_REPLAYS__UPLOAD_MAX_BYTES"):
        scene.client.upload_replay(match.id, pack_recording(recording_of(match)))


@ON_SQLITE
def test_a_worker_token_sends_recordings_of_its_own_matches_alone(connect: Connect) -> None:
    owner, stranger, admin, reader = (
        connect(scope, name)
        for scope, name in (("worker", "ann"), ("worker", "bob"), ("admin", "boss"), ("read", "eye"))
    )
    first, second = play(Scene(owner), 2)
    data = pack_recording(recording_of(first))
    for client in (stranger, reader):
        with pytest.raises(ForbiddenError):
            client.upload_replay(first.id, data)
    owner.upload_replay(first.id, data)
    admin.upload_replay(second.id, pack_recording(recording_of(second)))
    assert reader.replay(first.id) == data


# --- bytes and rows --------------------------------------------------------------------------------------------------


def test_bytes_are_stored_once_and_only_for_accepted_uploads(
    scene: Scene, database: Database, store: RecordingFolder, match: wire.Match
) -> None:
    data = pack_recording(recording_of(match))
    with pytest.raises(RefusedReplayError):
        scene.client.upload_replay(match.id, pack_recording(recording_of(match, seed=1)))
    assert stored_keys(store) == set()
    for _ in range(2):
        scene.client.upload_replay(match.id, data)
    (key,) = stored_keys(store)
    assert (store.get(key), row_keys(database)) == (data, {key})


def test_a_row_is_committed_only_after_its_bytes_are_durable(
    scene: Scene, database: Database, match: wire.Match, tmp_path: Path
) -> None:
    (tmp_path / "checkpoints" / "replays").write_bytes(b"not a folder")
    with refused("store-unavailable"):
        scene.client.upload_replay(match.id, pack_recording(recording_of(match)))
    assert row_keys(database) == set()


def test_failed_commit_leaves_bytes_that_garbage_collection_deletes(
    scene: Scene, database: Database, store: RecordingFolder, match: wire.Match, tmp_path: Path, monkeypatch: Any
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise InterruptedError

    data = pack_recording(recording_of(match))
    with monkeypatch.context() as patch:
        patch.setattr(replays, "insert_new", fail)
        with pytest.raises(LeagueError):
            scene.client.upload_replay(match.id, data)
    (orphan,) = stored_keys(store)
    assert row_keys(database) == set()
    scene.client.upload_replay(match.id, data)
    assert scene.client.replay(match.id) == data
    checkpoints, later = DirectoryStore(tmp_path / "checkpoints", 2**20), datetime.now(UTC) + timedelta(hours=1)
    found = garbage_collection.survey(database, checkpoints, later)
    assert [each.key for each in found.recordings] == [orphan]
    deleted = garbage_collection.collect(database, checkpoints, found, later, actor="me", now=later)
    assert list(deleted) == found.deletable
    assert stored_keys(store) == row_keys(database)


@pytest.mark.parametrize("same", [True, False])
def test_slower_of_two_uploads_leaves_no_bytes(
    scene: Scene, database: Database, store: RecordingFolder, match: wire.Match, monkeypatch: Any, same: bool
) -> None:
    first = recording_of(match)
    other = replace(first, steps=(replace(first.steps[0], rewards=(1.0, 1.0)), *first.steps[1:]))

    def overtaken(match_id: int) -> str:
        monkeypatch.setattr(replays, "new_key", new_key)
        scene.client.upload_replay(match.id, pack_recording(first))
        return new_key(match_id)

    monkeypatch.setattr(replays, "new_key", overtaken)
    with nullcontext() if same else refused("replay-conflict", match.id):
        scene.client.upload_replay(match.id, pack_recording(first if same else other))
    assert scene.client.replay(match.id) == pack_recording(first)
    assert stored_keys(store) == row_keys(database)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
@ON_SQLITE
def test_lost_bytes_are_not_served(scene: Scene, store: RecordingFolder, match: wire.Match, damage: str) -> None:
    scene.client.upload_replay(match.id, pack_recording(recording_of(match)))
    (key,) = stored_keys(store)
    if damage == "missing":
        store.delete(key)
    else:
        store.put(key, b"other")
    with refused("unknown-replay", match.id, key):
        scene.client.replay(match.id)


@ON_SQLITE
def test_recordings_expire_even_if_the_store_is_unavailable(
    scene: Scene, database: Database, match: wire.Match, tmp_path: Path, time: Any, caplog: pytest.LogCaptureFixture
) -> None:
    scene.client.upload_replay(match.id, pack_recording(recording_of(match)))
    (tmp_path / "file").touch()
    gone = RecordingFolder(tmp_path / "file")
    config, later = ReplayConfig(keep_days=1.0), time.now + timedelta(days=2)
    assert list(ReplayService(database, gone, config).prune(later)) == [1]
    assert row_keys(database) == set()
    assert "league admin gc" in caplog.text


# --- how many are kept -----------------------------------------------------------------------------------------------

CONFIG = ReplayConfig(upload_max_bytes=100, keep_max=20, keep_max_bytes=1000)


@given(st.lists(st.tuples(st.integers(1, 100), st.booleans()), max_size=60))
def test_retention_keeps_the_newest_replays_within_the_limits(sizes: list[tuple[int, bool]]) -> None:
    kept = [StoredReplay(number, size, notable) for number, (size, notable) in enumerate(sizes)]
    gone = set(replays.surplus(kept, CONFIG))
    left = [each for each in kept if each.match_id not in gone]
    assert len(left) <= CONFIG.keep_max
    assert sum(each.size_bytes for each in left) <= CONFIG.keep_max_bytes
    for notable in (True, False):
        own = [each.match_id for each in kept if each.notable is notable]
        stay = [each.match_id for each in left if each.notable is notable]
        assert stay == own[len(own) - len(stay) :], "the oldest go"


def test_notable_recordings_outlast_others_up_to_half() -> None:
    mixed = [StoredReplay(number, 10, number < 8) for number in range(40)]
    left = {each.match_id for each in mixed} - set(replays.surplus(mixed, CONFIG))
    assert set(range(8)) <= left, "they are the oldest of all"
    flood = [StoredReplay(number, 10, notable=True) for number in range(40)]
    assert len(flood) - len(replays.surplus(flood, CONFIG)) == 10


def test_the_oldest_recordings_make_room(
    serve: Callable[..., TestClient], database: Database, store: RecordingFolder
) -> None:
    scene = Scene(LeagueClient(http=serve(replays=ReplayConfig(keep_max=4))))
    matches = sorted(play(scene, 6), key=lambda match: match.id)
    for each in matches:
        scene.client.upload_replay(each.id, pack_recording(recording_of(each)))
    for each in matches[:2]:
        with refused("unknown-replay", each.id):
            scene.client.replay(each.id)
    sizes = [len(scene.client.replay(each.id)) for each in matches[2:]]
    with database.read() as session:
        assert replays.usage(session) == replays.Usage(4, sum(sizes))
    assert stored_keys(store) == row_keys(database)


def test_recordings_of_the_champion_and_of_gates_are_notable(
    scene: Scene, database: Database, match: wire.Match
) -> None:
    scene.publish(1)
    champion = scene.publish(2).id
    scene.client.set_champion(champion, expected=None)
    leases = [lease for _ in range(10) for lease in scene.rating_leases(8)]
    lease = next(each for each in leases if champion in (each.home.player_id, each.away.player_id))
    (answer,) = scene.report(result(lease), worker=scene.evaluator)
    honoured = scene.client.match(int(answer.match_id or 0))
    for each in (match, honoured):
        scene.client.upload_replay(each.id, pack_recording(recording_of(each)))
    with database.read() as session:
        rows = session.execute(select(Replay.match_id, Replay.notable))
        assert dict(iter(rows)) == {match.id: False, honoured.id: True}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KEEP_MAX", "0"),
        ("KEEP_MAX_BYTES", "1000"),
        ("KEEP_DAYS", "0"),
    ],
)
def test_unusable_bounds_are_refused(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(f"LEAGUE_REPLAYS__{variable}", value)
    with refused("configuration", f"LEAGUE_REPLAYS__{variable}={value}"):
        Settings.load()


@ON_SQLITE
def test_every_server_runs_replay_retention(serve: Callable[..., TestClient]) -> None:
    league = serve(retention_days=None).app.state.league  # type: ignore[attr-defined]
    assert any(isinstance(task, ReplayRetentionTask) for task in periodic_tasks(league, with_background_process=False))


def test_replays_expire_without_new_uploads(
    scene: Scene, database: Database, store: RecordingFolder, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "PRUNED_AT_ONCE", 2)
    pruner = ReplayRetentionTask(ReplayService(database, store, ReplayConfig(keep_days=30.0)), lambda: time.now)
    matches = play(scene, 4)
    for match in matches:
        scene.client.upload_replay(match.id, pack_recording(recording_of(match)))
        time.advance(1)
    time.advance(30 * 86400 - 4)
    pruner.run_once()
    assert [scene.client.match(match.id).recorded for match in matches] == [True] * 4, "thirty days are not over"
    time.advance(3)
    pruner.run_once()
    assert [scene.client.match(match.id).recorded for match in matches] == [False] * 3 + [True]
    assert stored_keys(store) == row_keys(database)
