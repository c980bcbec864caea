"""Workers that attach or beat at one moment are treated as if they came one after the other."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from league_scene import Scene
from refused import refused
from sqlalchemy import event, func, select
from sqlalchemy.orm import Session

from league import wire
from league.auth import Principal, Scope
from league.db.engine import Database
from league.db.models import Worker
from league.errors import ForbiddenError, LeagueError, UnknownWorkerError
from league.services.workers import heartbeats
from league.services.workers import registration as workers_registration
from league.services.workers import service as workers
from league.services.workers.heartbeats import Heartbeat
from league.services.workers.registration import Registration

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ANN, BOB = Principal("ann", Scope.WORKER), Principal("bob", Scope.WORKER)
BOSS = Principal("boss", Scope.ADMIN)

BEFORE = (("a", None, BOSS), ("b", None, ANN), ("c", "of-c", ANN), ("d", "of-d", BOSS), ("e", None, BOB))


def registration(name: str, instance: str | None, caller: Principal, *, later: bool = False) -> Registration:
    request = wire.WorkerCreate(
        name=name, kind="trainer", version="2" if later else "1", signatures=["y" if later else "x"], instance=instance
    )
    return Registration(request, caller, NOW + timedelta(hours=later))


def register(session: Session, *those: tuple[str, str | None, Principal], later: bool) -> list[Any]:
    return workers_registration.register(session, [registration(*each, later=later) for each in those])


def table(session: Session) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.execute(select(*Worker.__table__.columns).order_by(Worker.id))]


@pytest.mark.parametrize(
    "those",
    [
        pytest.param((("a", None, BOSS), ("b", None, ANN), ("new", None, BOSS), ("new", "first", BOB)), id="by name"),
        pytest.param((("b", None, BOB), ("a", None, ANN), ("b", None, BOSS)), id="names that are others'"),
        pytest.param((("x", "of-c", ANN), ("y", "of-d", BOB), ("z", "new", ANN)), id="by instance"),
        pytest.param((("d", "of-d", BOSS), ("c", "of-c", BOSS), ("e", "new", BOB)), id="by instance, of old ones"),
        pytest.param((("a", None, BOSS), ("a", None, BOSS), ("n", "i", ANN), ("n", "i", ANN)), id="twice"),
    ],
)
def test_together_workers_attach_as_one_by_one(
    database: Database, those: Sequence[tuple[str, str | None, Principal]]
) -> None:
    with database.write() as session:
        register(session, *BEFORE, later=False)
        before = table(session)
        with session.begin_nested() as trial:
            apart = [register(session, each, later=True)[0] for each in those]
            told = table(session)
            trial.rollback()
        assert table(session) == before
        assert register(session, *those, later=True) == apart
        assert table(session) == told


@pytest.mark.parametrize("taken", ["of-c", "of-d"])
def test_an_instance_of_another_token_is_refused_also_where_it_was_claimed_a_moment_ago(
    database: Database, taken: str
) -> None:
    with database.write() as session:
        register(session, *BEFORE, later=False)
    with refused("forbidden", "ann"), database.write() as session:
        register(session, ("mine", taken, ANN), ("mine", taken, BOB), later=True)


def test_workers_that_come_back_take_as_many_statements_however_many_they_are(database: Database) -> None:
    statements: Counter[int] = Counter()
    for count in (4, 40):
        these = [(f"w-{number}", f"i-{number}" if number % 2 else None, BOSS) for number in range(count)]
        with database.write() as session:
            register(session, *these, later=False)

        def note(*_: object, count: int = count) -> None:
            statements[count] += 1

        with database.write() as session:
            session.connection()  # which begins the transaction
            event.listen(database.engine, "before_cursor_execute", note)
            register(session, *these, later=True)
            event.remove(database.engine, "before_cursor_execute", note)
            assert {row.version for row in session.scalars(select(Worker))} == {"2"}
    assert statements[4] == statements[40] == (2 if database.sqlite else 3)  # PostgreSQL has a lock to take


def beat(worker_id: str, caller: Principal, now: datetime) -> Heartbeat:
    return Heartbeat(worker_id, [], caller, now)


def test_heartbeats_share_a_statement_and_get_their_own_commands(database: Database) -> None:
    with database.write() as session:
        attached = register(session, *BEFORE, later=False)
        workers.require(session, attached[1]["id"]).command = "drain"
    statements = []
    beats = [beat(each["id"], BOSS, NOW + timedelta(seconds=place)) for place, each in enumerate(attached)]
    with database.write() as session:
        session.connection()  # which begins the transaction
        event.listen(database.engine, "before_cursor_execute", lambda *_: statements.append(1))
        told = heartbeats.record_heartbeats(session, [*beats, beats[0]])
        assert len(statements) == 1
        assert [each.command for each in told] == ["continue", "drain", "continue", "continue", "continue", "continue"]
        assert set(session.scalars(select(Worker.seen_at))) == {NOW + timedelta(seconds=4)}


@pytest.mark.parametrize(
    ("caller", "index", "refusal"),
    [(BOB, 1, ForbiddenError), (ANN, 0, ForbiddenError), (ANN, None, UnknownWorkerError)],
)
def test_a_refused_heartbeat_leaves_those_beside_it_alone(
    database: Database,
    caller: Principal,
    index: int | None,
    refusal: type[LeagueError],
) -> None:
    with database.write() as session:
        attached = register(session, *BEFORE, later=False)
    wanted = "nobody" if index is None else attached[index]["id"]
    beats = [beat(attached[2]["id"], ANN, NOW + timedelta(hours=1)), beat(wanted, caller, NOW + timedelta(hours=1))]
    with database.write() as session:
        answer, found = heartbeats.record_heartbeats(session, beats)
    assert isinstance(answer, heartbeats.HeartbeatResponse)
    assert isinstance(found, refusal)
    with database.read() as session:
        seen = dict(session.execute(select(Worker.id, Worker.seen_at)).all())
    assert [worker for worker, at in seen.items() if at > NOW] == [attached[2]["id"]]


def test_concurrent_workers_get_their_own_answers(scene: Scene, database: Database) -> None:
    def call(number: int) -> str:
        worker = scene.worker(f"crowd-{number}", "trainer")
        if number % 3 == 0:
            with refused("unknown-worker", f"ghost-{number}"):
                scene.client.heartbeat(f"ghost-{number}")
        progress = wire.LearnerProgress(learner_id=scene.learner.id, step=number)
        assert scene.client.heartbeat(worker.id, wire.Heartbeat(learners=[progress])).command == "continue"
        return worker.id

    with ThreadPoolExecutor(12) as pool:
        ids = list(pool.map(call, range(36)))
    assert len(set(ids)) == 36
    with database.read() as session:
        assert session.scalar(select(func.count()).where(Worker.name.startswith("crowd-"))) == 36
