"""A worker token writes only for what is its own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result, safetensors, sha256
from lock_waiters import PATIENCE_S, wait_for_waiters
from refused import refused
from sqlalchemy import select

from league import wire
from league.client import LeagueClient
from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Learner
from league.services.audit.log import Cause
from league.services.auth import ownership, tokens

NOW = datetime(2030, 1, 1, tzinfo=UTC)

Connect = Callable[..., LeagueClient]


def deeds(client: LeagueClient, scene: Scene, lease: wire.Lease) -> dict[str, Callable[[], object]]:
    """All that a worker writes, done by a client on behalf of a scene."""
    own = scene.trainer.id
    progress = wire.LearnerProgress(learner_id=scene.learner.id, step=1)
    data = safetensors(9)
    client.upload(data, sha256(data))
    training: dict[str, Any] = {"kind": "training", "player_id": scene.learner.player_id, "count": 1, "budget": 1}
    rating: dict[str, Any] = {"kind": "rating", "environment": scene.environment, "count": 2, "budget": 1}
    return {
        "register learner": lambda: client.register_learner(
            wire.LearnerCreate(name="main", role="main", environment=scene.environment, signature=scene.signature)
        ),
        "heartbeat": lambda: client.heartbeat(own),
        "progress": lambda: client.heartbeat(own, wire.Heartbeat(learners=[progress])),
        "training leases": lambda: client.lease(wire.TrainingLeases(worker_id=own, **training)),
        "rating leases": lambda: client.lease(wire.RatingLeases(worker_id=own, **rating)),
        "release": lambda: client.release(wire.ReleaseRequest(worker_id=own, lease_ids=[lease.lease_id])),
        "results": lambda: client.report(wire.ResultBatch(worker_id=own, results=[result(lease)])),
        "publish": lambda: client.publish(
            wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(data), step=9)
        ),
    }


def test_a_worker_token_writes_for_its_own_worker_and_learner_alone(connect: Connect) -> None:
    owner, stranger, admin = connect("worker", "ann"), connect("worker", "bob"), connect("admin", "boss")
    scene = Scene(owner)
    (lease,) = scene.opponent_leases(1, budget=5)
    for name, deed in deeds(stranger, scene, lease).items():
        with refused("forbidden", "bob", "ann"):
            deed()
        assert scene.matches() == 0, name
    for client in (owner, admin):
        for deed in deeds(client, scene, lease).values():
            deed()
    assert scene.matches() == 1


def test_a_registration_under_anothers_name_leaves_the_other_alone(connect: Connect) -> None:
    owner = connect("worker", "ann")
    scene, stranger = Scene(owner), connect("worker", "bob")
    before = owner.workers().items
    forged = stranger.register_worker(worker_of(scene, version="forged", signatures=["forged"]))
    assert [worker for worker in owner.workers().items if worker.id != forged.id] == before
    owner.heartbeat(scene.trainer.id)


def test_a_stranger_with_a_worker_of_its_own_still_may_not_play_for_the_learner(connect: Connect) -> None:
    scene, stranger = Scene(connect("worker", "ann")), connect("worker", "bob")
    request = wire.WorkerCreate(name="bob-1", kind="trainer", version="1", signatures=[scene.signature])
    worker = stranger.register_worker(request)
    asked = wire.TrainingLeases(
        kind="training", worker_id=worker.id, player_id=scene.learner.player_id, count=1, budget=1
    )
    with refused("forbidden", "main", "ann"):
        stranger.lease(asked)
    progress = wire.LearnerProgress(learner_id=scene.learner.id, step=1)
    with refused("forbidden", "main", "ann"):
        stranger.heartbeat(worker.id, wire.Heartbeat(learners=[progress]))


def test_a_learner_of_an_open_league_is_nobodys_until_it_is_assigned(
    league: LeagueClient, connect: Connect, database: Database
) -> None:
    before = Scene(league)
    ann, bob, boss = connect("worker", "ann"), connect("worker", "bob"), connect("admin", "boss")
    for client in (ann, bob):
        with refused("forbidden", "main", "league token assign", "--environment", "rps"):
            Scene(client)
        data = safetensors(1)
        client.upload(data, sha256(data))
        with refused("forbidden", "main"):
            client.publish(wire.PlayerCreate(learner_id=before.learner.id, checkpoint=sha256(data), step=1))
    assert Scene(boss).learner.id == before.learner.id
    assign(database, "bob")
    assert Scene(bob).publish(1).learner_id == before.learner.id
    with refused("forbidden", "main", "bob"):
        Scene(ann)
    assign(database, "ann")
    assert Scene(ann).publish(2).learner_id == before.learner.id
    with refused("forbidden", "main", "ann"):
        Scene(bob)
    told = boss.events(kind="token", player=before.learner.player_id).items
    assert [(event.actor, event.details["before"], event.details["token"]) for event in told] == [
        ("keeper", "bob", "ann"),
        ("keeper", None, "bob"),
    ]


def assign(database: Database, token: str, learner: str = "main", environment: str = "rps") -> None:
    with database.write() as session:
        ownership.assign(session, token, environment, learner, actor="keeper", now=NOW)


@ON_SQLITE
def test_a_learner_is_assigned_to_a_worker_token_that_there_is(
    scene: Scene, connect: Connect, database: Database
) -> None:
    connect("worker", "ann")
    connect("admin", "boss")
    with refused("invalid-request", "boss"):
        assign(database, "boss")
    with refused("unknown-token", "nobody"):
        assign(database, "nobody")
    for learner, environment in (("other", "rps"), ("main", "recall")):
        with refused("unknown-learner", learner, environment):
            assign(database, "ann", learner, environment)


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_learner_is_assigned_while_something_about_it_is_written_into_the_log(
    scene: Scene, connect: Connect, database: Database
) -> None:
    connect("worker", "ann")
    learner = select(Learner).where(Learner.id == scene.learner.id)
    with ThreadPoolExecutor(1) as pool:
        with database.write() as session:
            locks.acquire(session, Lock.EVENTS)
            assigning = pool.submit(assign, database, "ann")
            wait_for_waiters(database, 1)
            session.scalars(learner.with_for_update(read=True, key_share=True)).one()  # as whatever refers to its row
        assigning.result(PATIENCE_S)
    with database.read() as session:
        assert session.scalars(learner).one().owner == "ann"


def worker_of(scene: Scene, **changes: Any) -> wire.WorkerCreate:
    fields = {"name": "trainer-1", "kind": "trainer", "version": "1", "signatures": [scene.signature]}
    return wire.WorkerCreate.model_validate(fields | changes)


def test_worker_of_an_open_league_is_claimed_by_the_token_with_its_instance(scene: Scene, connect: Connect) -> None:
    request = worker_of(scene, name="trainer-main", instance="known-to-one")
    worker = scene.client.register_worker(request)
    ann, bob = connect("worker", "ann"), connect("worker", "bob")
    with refused("forbidden", "trainer-main"):
        bob.heartbeat(worker.id)
    assert bob.register_worker(request.model_copy(update={"instance": "a-guess"})).id != worker.id
    assert ann.register_worker(request).id == worker.id
    with refused("forbidden", "trainer-main", "ann"):
        bob.register_worker(request)
    assert ann.heartbeat(worker.id).command == "continue"
    admin = connect("admin", "boss")
    assert admin.register_worker(request).id == worker.id
    assert ann.heartbeat(worker.id).command == "continue"  # an admin takes nothing away


@pytest.mark.parametrize("instances", [(None, None), ("a", "b"), (None, "b"), ("a", None)])
def test_workers_of_one_name_and_two_tokens_are_two_workers(
    connect: Connect, database: Database, instances: tuple[str | None, str | None]
) -> None:
    connect("admin")
    ann, bob = connect("worker", "ann"), connect("worker", "bob")
    for _ in range(2):
        registered = [
            client.register_worker(
                wire.WorkerCreate(name="trainer-1", kind="trainer", version="1", signatures=["x"], instance=instance)
            )
            for client, instance in zip((ann, bob), instances, strict=True)
        ]
        assert [worker.name for worker in registered] == ["trainer-1", "trainer-1 #2"]
        for client, worker in zip((ann, bob), registered, strict=True):
            client.heartbeat(worker.id)
    assert len(ann.workers().items) == 2


def test_renewed_token_keeps_its_learners_and_workers(connect: Connect, http: TestClient, database: Database) -> None:
    scene = Scene(connect("worker", "ann"))
    with database.write() as session:
        tokens.revoke(session, "ann", Cause("test", "", NOW))
        renewed = tokens.renew(session, "ann", Cause("test", "", NOW))
    again = Scene(LeagueClient(http=http, token=renewed))
    assert again.learner.id == scene.learner.id
    assert again.trainer.id == scene.trainer.id
