"""An environment is deleted with all that is its own, without harm to others or to results on their way."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from gate_scene import open_gate
from league_history import put_to_work, recomputed
from league_scene import Scene, result
from lock_waiters import PATIENCE_S, wait_for_waiters
from refused import refused
from sqlalchemy import func, insert, select

from league import wire
from league.api.routers.events import _since
from league.background.pair_models import PairModelTask
from league.client import LeagueClient
from league.db import locks, schema
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Base, Event, Lease, Match, Player, Replay
from league.errors import UnknownEnvironmentError, UnknownLearnerError, UnknownPlayerError
from league.services.audit import stream as audit_stream
from league.services.checkpoints import garbage_collection
from league.services.environments import deletion as environment_deletion
from league.services.environments import listing as environment_listing
from league.services.environments.deletion import EnvironmentContents
from league.services.matchmaking.leases import LeaseService
from league.services.operations import export, import_
from league.services.operations.archive import ArchiveReader
from league.services.operations.integrity import check
from league.services.population import role_config
from league.settings import Settings
from league.storage.factory import open_store

OTHER, SIGNATURE = "recall", "recall-1"


@pytest.fixture
def database_url(past_url: str) -> str:
    return past_url


@pytest.fixture
def other(league: LeagueClient, database: Database, time: Any) -> Scene:
    """A second environment with a past, whose players and matches are the newest of the league."""
    scene = Scene(league, OTHER, SIGNATURE)
    put_to_work(scene, time)
    return scene


def held(database: Database, environment: str) -> EnvironmentContents:
    with database.read() as session:
        return environment_deletion.survey(session, environment)


def remove(
    database: Database, time: Any, exported: EnvironmentContents | None = None, environment: str = OTHER
) -> EnvironmentContents:
    return environment_deletion.remove(database, environment, exported, actor="test", now=time.now)


def rows_by_table(database: Database, environment: str) -> dict[str, int]:
    """Count the rows of every table that names environments."""
    tables = [table for table in Base.metadata.sorted_tables if "environment" in table.c]
    with database.read() as session:
        return {
            table.name: session.scalar(select(func.count()).where(table.c.environment == environment)) or 0
            for table in tables
        }


def size(database: Database) -> dict[str, int]:
    with database.read() as session:
        return {
            table.name: session.scalar(select(func.count()).select_from(table)) or 0
            for table in Base.metadata.sorted_tables
        }


def require_sound(database: Database, settings: Settings, time: Any) -> None:
    """Collect what no player has, and check every invariant."""
    store, later = open_store(settings), time.now + timedelta(days=10_000)
    found = garbage_collection.survey(database, store, later)
    list(garbage_collection.collect(database, store, found, later, actor="test", now=time.now))
    assert check(database, store, unpublished_before=later) == []
    assert all(each.differing == 0 for each in recomputed(database))
    with database.read() as session:
        keys = set(session.scalars(select(Replay.key)))
    assert {each.key for each in store.recordings.listing()} == keys


def test_deleting_an_environment_leaves_others_unchanged(
    scene: Scene, other: Scene, database: Database, time: Any, configure: Callable[..., Settings], tmp_path: Path
) -> None:
    newest = other.client.players(OTHER, standing="candidate").items
    open_gate(other, (newest[0], newest[1]))
    (commander,) = other.client.players(OTHER, standing="commander").items
    other.client.set_champion(commander.id, "best", expected=None)
    other.client.register_worker(wire.WorkerCreate(name="w", kind="evaluator", version="1", signatures=[SIGNATURE]))
    PairModelTask(database, configure(), lambda: time.now).run_once()
    league = scene.client
    rated, rest = league.standings("rps").items, size(database)
    lines = league.events(None, periods=True, limit=1000).items
    file, present = tmp_path / "league.zip", held(database, OTHER)
    settings = configure()
    export.export(database, open_store(settings), file, time.now, lambda *_: None)
    before = rows_by_table(database, OTHER)
    assert {name for name, rows in before.items() if not rows} <= {"side_payoffs", "fingerprint_marks"}
    gone = remove(database, time, present)
    assert gone == present
    assert set(rows_by_table(database, OTHER).values()) == {0}
    left = size(database)
    assert rest["matches"] - left["matches"] == gone.matches > 50
    assert rest["players"] - left["players"] == gone.players
    assert left["opponent_distributions"] < rest["opponent_distributions"]
    assert left["replays"] == 1
    assert league.standings("rps").items == rated
    require_sound(database, settings, time)
    with pytest.raises(UnknownEnvironmentError):
        league.standings(OTHER)

    log = league.events(None, periods=True, limit=1000).items
    assert len(log) == len(lines) + 2, "the audit log stays; a deletion and a collection are in it"
    (line,) = [each for each in log if each.kind == "environment"]
    assert (line.actor, line.details["change"], line.details["environment"]) == ("test", "deleted", OTHER)
    assert line.details["matches"] == gone.matches
    detached = [each for each in log if each.details.get("environment") == OTHER and each.kind != "environment"]
    assert {"promote", "period", "gate"} <= {each.kind for each in detached}
    assert {(each.environment, each.player_id) for each in detached} == {(None, None)}
    assert all(each.details["player_id"] for each in detached if each.kind == "promote")


def test_every_table_that_may_refer_to_an_environment_is_looked_after() -> None:
    """A new table with a reference to players, matches or the like belongs into the deletion, too."""
    emptied = {statement.table.name for statement in environment_deletion._deletions(OTHER)} | {
        "opponent_distributions"
    }
    kept = {"events"}  # which refer to nothing of it afterwards
    own = {"learners", "players", "matches", "leases", "periods", "gates"}
    concerned = {
        table.name
        for table in Base.metadata.sorted_tables
        if "environment" in table.c or own & {key.column.table.name for key in table.foreign_keys}
    }
    assert concerned <= emptied | kept


def test_the_export_that_precedes_a_deletion_brings_the_environment_back(
    other: Scene, database: Database, time: Any, configure: Callable[..., Settings], tmp_path: Path
) -> None:
    rated = other.client.standings(OTHER).items
    file, present, settings = tmp_path / "league.zip", held(database, OTHER), configure()
    export.export(database, open_store(settings), file, time.now, lambda *_: None)
    remove(database, time, present)
    there = Database(f"sqlite:///{tmp_path / 'there.db'}")
    schema.upgrade(there)
    with ArchiveReader(file) as archive:
        import_.load(archive, there, open_store(settings), time.now, lambda *_: None)
    assert held(there, OTHER) == present
    assert len(rated) == present.players
    there.close()


def test_matches_are_deleted_only_after_an_export_that_has_them_all(
    other: Scene, database: Database, time: Any
) -> None:
    present, rows = held(database, OTHER), size(database)
    with refused("environment-conflict", "recall", "--force", "--export", "FILE"):
        remove(database, time)
    other.train(3)
    rows = size(database)
    with refused("environment-conflict", 3, 0):
        remove(database, time, present)
    assert size(database) == rows
    present = held(database, OTHER)
    other.publish(99)
    with refused("environment-conflict", 0, 1):
        remove(database, time, present)
    with refused("unknown-environment", "recall", "rps"):
        remove(database, time, environment="chess")


def test_environment_without_matches_is_deleted_and_can_be_recreated(
    scene: Scene, league: LeagueClient, database: Database, time: Any, configure: Callable[..., Settings]
) -> None:
    empty = Scene(league, OTHER, SIGNATURE)
    first = empty.publish(1)
    leased = empty.opponent_leases(2)
    time.advance(60)
    league.close_period(OTHER)
    remove(database, time)
    assert set(rows_by_table(database, OTHER).values()) == {0}
    require_sound(database, configure(), time)
    for stale in (lambda: empty.lease(1), lambda: league.player(first.id), lambda: league.standings(OTHER)):
        with pytest.raises((UnknownPlayerError, UnknownEnvironmentError)):
            stale()
    again = Scene(league, OTHER, SIGNATURE)
    snapshot = again.publish(1)
    again.train(3)
    time.advance(60)
    league.close_period(OTHER)
    assert {each.id for each in league.players(OTHER).items} >= {snapshot.id, again.learner.player_id}
    assert [each.kind for each in league.events(OTHER, periods=True).items] == ["period"]
    answers = again.report(*(result(lease) for lease in leased))
    assert {each.status for each in answers} == {"rejected"}
    require_sound(database, configure(), time)


def test_caches_of_a_running_server_do_not_take_new_players_for_deleted_ones(
    scene: Scene, league: LeagueClient, database: Database, time: Any, configure: Callable[..., Settings]
) -> None:
    """SQLite gives the ids of deleted rows to the next ones."""
    empty = Scene(league, OTHER, SIGNATURE)
    empty.publish(1)
    empty.opponent_leases(1)
    scene.opponent_leases(1)
    remove(database, time)
    third = Scene(league, "third", "third-1")
    snapshots = [third.publish(step) for step in range(6)]
    third.train(4)
    scene.trainer = scene.worker("trainer-1", "trainer")
    fresh = scene.publish(77)
    scene.train(4)
    for one, names in ((third, snapshots), (scene, [fresh])):
        time.advance(60)
        league.close_period(one.environment)
        assert {each.id for each in names} <= {each.id for each in league.standings(one.environment).items}
        assert all(league.player(each.id).environment == one.environment for each in names)
    require_sound(database, configure(), time)


# --- what is on its way ----------------------------------------------------------------------------------------------


def test_a_result_of_a_lease_that_was_deleted_is_refused_by_its_reason_each_time(
    league: LeagueClient, database: Database, time: Any
) -> None:
    """Whoever granted the lease remembers it, and learns of the deletion from the database alone."""
    doomed = Scene(league, OTHER, SIGNATURE)
    doomed.publish(1)
    first, second = doomed.opponent_leases(2)
    remove(database, time)
    for _ in range(2):
        (answer,) = doomed.report(result(first))
        assert (answer.status, answer.match_id) == ("rejected", None)
        assert "lease" in str(answer.detail)
    behaviour = wire.Behaviour(measures=["speed"], home=[1.0], away=[2.0])
    (answer,) = doomed.report(result(second, behaviour=behaviour))
    assert answer.status == "rejected"
    assert size(database)["matches"] == held(database, "rps").matches


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_result_that_is_being_written_is_in_the_log_before_the_deletion_looks(
    league: LeagueClient, database: Database, time: Any
) -> None:
    doomed = Scene(league, OTHER, SIGNATURE)
    doomed.publish(1)
    (lease,) = doomed.opponent_leases(1)
    with ThreadPoolExecutor() as threads:
        with database.write() as session:
            locks.acquire_shared(session, Lock.INTAKE, OTHER)
            row = {
                **{name: getattr(session.get(Lease, lease.lease_id), name) for name in ("kind", "environment")},
                "lease_id": lease.lease_id, "sequence": 0, "home_id": lease.home.player_id,
                "away_id": lease.away.player_id, "score": 1.0, "decisions": 5, "reason": "decided", "seed": 1,
                "late": False, "payload_hash": b"", "worker_id": doomed.trainer.id, "reported_at": time.now,
            }  # fmt: skip
            session.execute(insert(Match).values(row))
            removing = threads.submit(remove, database, time)
            wait_for_waiters(database, 1)
        with refused("environment-conflict", 1):
            removing.result(PATIENCE_S)
    assert held(database, OTHER).matches == 1


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_snapshot_that_is_published_while_its_environment_is_deleted_is_of_an_unknown_learner(
    league: LeagueClient, database: Database, time: Any
) -> None:
    doomed = Scene(league, OTHER, SIGNATURE)
    with ThreadPoolExecutor() as threads:
        with database.write() as session:
            locks.acquire(session, Lock.POPULATION)
            publishing = threads.submit(doomed.publish, 1)
            wait_for_waiters(database, 1)
            environment_deletion._remove(session, OTHER, None, "test", time.now)
        with pytest.raises(UnknownLearnerError):
            publishing.result(PATIENCE_S)
    assert set(rows_by_table(database, OTHER).values()) == {0}


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_learner_that_is_deleted_while_it_registers_again_is_unknown(
    league: LeagueClient, database: Database, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scene(league, OTHER, SIGNATURE)
    beginnings = role_config.resets

    def deleted_before(*given: Any) -> Any:
        remove(database, time)
        return beginnings(*given)

    monkeypatch.setattr(role_config, "resets", deleted_before)
    with pytest.raises(UnknownLearnerError):
        league.register_learner(wire.LearnerCreate(name="main", role="main", environment=OTHER, signature=SIGNATURE))


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
@pytest.mark.parametrize("known", [False, True])
def test_leases_that_are_granted_while_an_environment_is_deleted_leave_nothing_behind(
    league: LeagueClient,
    database: Database,
    time: Any,
    monkeypatch: pytest.MonkeyPatch,
    configure: Callable[..., Settings],
    known: bool,
) -> None:
    doomed = Scene(league, OTHER, SIGNATURE)
    doomed.publish(1)
    if known:
        doomed.lease(1)
    plan, drawn, go_on = LeaseService._plan_training, threading.Event(), threading.Event()

    def slowly(*given: Any) -> Any:
        planned = plan(*given)
        drawn.set()
        assert go_on.wait(PATIENCE_S)
        return planned

    monkeypatch.setattr(LeaseService, "_plan_training", slowly)
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(doomed.lease, 4)
        assert drawn.wait(PATIENCE_S)
        remove(database, time)
        go_on.set()
        with refused("unknown-environment"):
            asked.result(PATIENCE_S)
    assert set(rows_by_table(database, OTHER).values()) == {0}
    require_sound(database, configure(), time)


def test_event_streams_continue_after_a_deletion(
    scene: Scene, league: LeagueClient, database: Database, time: Any, http: TestClient
) -> None:
    Scene(league, OTHER, SIGNATURE).train(9)
    running = http.app.state.league
    cursor = audit_stream.latest(database)
    remove(database, time, held(database, OTHER))
    scene.trainer = scene.worker("trainer-1", "trainer")
    scene.train(2)
    told = {event.kind: event for _, event in _since(running, cursor)}
    assert told["result"].details == {"matches": 2}
    assert told["environment"].details["change"] == "deleted"


# --- created and listed ----------------------------------------------------------------------------------------------


def test_workers_register_in_an_environment_that_an_admin_created_until_it_is_deleted(
    serve: Callable[..., TestClient], connect: Callable[..., LeagueClient], database: Database, time: Any
) -> None:
    worker = connect("worker", "ann")
    worker._http = serve(workers_create_environments=False)
    request = wire.LearnerCreate(name="main", role="main", environment=OTHER, signature=SIGNATURE)

    def create() -> bool:
        with database.write() as session:
            return environment_listing.create(session, OTHER, actor="test", now=time.now)

    def listed() -> dict[str, int]:
        with database.read() as session:
            return {each.name: each.learners for each in environment_listing.list_environments(session, 100).items}

    assert listed() == {"rps": 1}
    assert [create(), create()] == [True, False]
    assert listed() == {OTHER: 0, "rps": 1}
    worker.register_learner(request)
    assert listed() == {OTHER: 1, "rps": 1}
    assert create() is False
    remove(database, time)
    with refused("forbidden", OTHER):
        worker.register_learner(request)
    assert create() is True
    remove(database, time)
    assert listed() == {"rps": 1}
    with database.read() as session:
        kinds = session.scalars(select(Event.details).where(Event.kind == "environment").order_by(Event.id)).all()
        assert [each["change"] for each in kinds] == ["created", "deleted", "created", "deleted"]
        assert session.scalar(select(func.count()).where(Player.environment == OTHER)) == 0
