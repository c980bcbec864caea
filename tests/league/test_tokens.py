"""Tokens end, are renewed, leave a trace, and write only for what is their own."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result, safetensors, sha256

from league import wire
from league.api.callers import NOTE_EVERY, REFUSED_COST, Callers
from league.client import LeagueClient, patience_of
from league.db.engine import Database
from league.errors import (
    ForbiddenError,
    InvalidRequestError,
    NameTakenError,
    RateLimitedError,
    UnauthenticatedError,
    UnknownLearnerError,
    UnknownTokenError,
)
from league.services import events, ownership, tokens

NOW = datetime(2030, 1, 1, tzinfo=UTC)

Connect = Callable[..., LeagueClient]


@pytest.fixture
def connect(http: TestClient, database: Database) -> Connect:
    """Make a client with a new token."""

    def make(scope: str, name: str | None = None, **terms: Any) -> LeagueClient:
        with database.write() as session:
            secret = tokens.create(session, name or scope, scope, NOW, actor="test", **terms)
        return LeagueClient(http=http, token=secret)

    return make


# --- the end of a token ----------------------------------------------------------------------------------------------


def test_a_token_works_until_it_expires_and_then_says_so(connect: Connect, time: Any) -> None:
    client = connect("read", "wall", expires_at=NOW + timedelta(hours=1))
    time.advance(3599)
    assert client.players().items == []
    time.advance(1)
    with pytest.raises(UnauthenticatedError, match=r"'wall' expired at 2030-01-01 01:00 UTC.*league token renew wall"):
        client.players()


@pytest.mark.parametrize("ended", ["revoked", "expired", "in use"])
def test_a_renewed_token_has_a_new_secret_alone(
    connect: Connect, http: TestClient, database: Database, time: Any, ended: str
) -> None:
    old = connect("read", "wall", expires_at=NOW + timedelta(hours=1))
    if ended == "revoked":
        with database.write() as session:
            tokens.revoke(session, "wall", NOW, actor="test")
    time.advance(7200 if ended == "expired" else 0)
    with database.write() as session:
        renewed = tokens.renew(session, "wall", time.now, actor="test")
    assert LeagueClient(http=http, token=renewed).players().items == []
    with pytest.raises(UnauthenticatedError, match="unknown or revoked"):
        old.players()
    with database.read() as session:
        (listed,) = tokens.listing(session)
    assert (listed.expires_at, listed.revoked_at) == (None, None)


@ON_SQLITE
def test_a_token_cannot_end_before_it_begins(database: Database, connect: Connect) -> None:
    with pytest.raises(InvalidRequestError, match="2030-01-01 00:00 UTC: a token must end after now"):
        connect("read", expires_at=NOW)
    connect("read", "wall")
    with database.write() as session, pytest.raises(InvalidRequestError):
        tokens.renew(session, "wall", NOW, actor="test", expires_at=NOW)
    with pytest.raises(NameTakenError, match="league token renew wall"):
        connect("read", "wall")


def test_the_last_use_of_a_token_is_noted_now_and_then(connect: Connect, database: Database, time: Any) -> None:
    client = connect("read", "wall")
    seen = []
    for _ in range(4):
        client.players()
        with database.read() as session:
            seen.append(tokens.listing(session)[0].used_at)
        time.advance(NOTE_EVERY.total_seconds() / 2)
    assert seen == [NOW, NOW, NOW + NOTE_EVERY, NOW + NOTE_EVERY]


def test_every_change_of_a_token_is_in_the_audit_log(database: Database) -> None:
    with database.write() as session:
        tokens.create(session, "wall", "read", NOW, actor="ann", expires_at=NOW + timedelta(days=1))
        tokens.renew(session, "wall", NOW, actor="bob")
        for _ in range(2):
            tokens.revoke(session, "wall", NOW, actor="cat")
    with database.read() as session:
        log = events.since(session, 0, 100)
    assert [(event.kind, event.actor, event.details["change"]) for event in log] == [
        ("token", "ann", "created"),
        ("token", "bob", "renewed"),
        ("token", "cat", "revoked"),
    ]
    assert log[0].details == {
        "change": "created",
        "token": "wall",
        "scope": "read",
        "expires_at": "2030-01-02T00:00:00+00:00",
    }


@ON_SQLITE
def test_what_became_of_a_token_is_known_within_the_time_it_is_remembered(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    http = serve(token_memory_s=1.0)
    everybody = LeagueClient(http=http)
    everybody.players()
    with database.write() as session:
        secret = tokens.create(session, "wall", "read", NOW, actor="test")
    client = LeagueClient(http=http, token=secret)
    for call in (everybody.players, client.players):
        call()
    time.advance(1)
    with pytest.raises(UnauthenticatedError, match="this server is closed"):
        everybody.players()
    client.players()
    with database.write() as session:
        tokens.revoke(session, "wall", NOW, actor="test")
    time.advance(0.5)
    client.players()
    time.advance(0.5)
    with pytest.raises(UnauthenticatedError, match="unknown or revoked"):
        client.players()


@ON_SQLITE
def test_a_clock_that_is_set_back_makes_no_token_last_longer(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    http = serve(token_memory_s=60.0)
    with database.write() as session:
        client = LeagueClient(http=http, token=tokens.create(session, "wall", "read", NOW, actor="test"))
    client.players()
    with database.write() as session:
        tokens.revoke(session, "wall", NOW, actor="test")
    client.players()
    time.advance(-3600)
    with pytest.raises(UnauthenticatedError, match="unknown or revoked"):
        client.players()


@ON_SQLITE
def test_a_token_expires_at_once_and_a_new_one_works_at_once(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    http = serve(token_memory_s=60.0)
    with database.write() as session:
        ends = tokens.create(session, "a", "read", NOW, actor="test", expires_at=NOW + timedelta(seconds=1))
        first = tokens.create(session, "b", "read", NOW, actor="test")
    client, later = LeagueClient(http=http, token=ends), LeagueClient(http=http, token=first)
    client.players()
    time.advance(1)
    with pytest.raises(UnauthenticatedError, match="expired"):
        client.players()
    with database.write() as session:
        second = tokens.renew(session, "b", NOW, actor="test")
    again = LeagueClient(http=http, token=second)
    with pytest.raises(UnauthenticatedError):
        LeagueClient(http=http, token=f"{second}x").players()
    again.players()
    with pytest.raises(UnauthenticatedError):
        later.players()


# --- what is a token's own -------------------------------------------------------------------------------------------


def deeds(client: LeagueClient, scene: Scene, lease: wire.Lease) -> dict[str, Callable[[], object]]:
    """All that a worker writes, done by a client on behalf of a scene."""
    own = scene.trainer.id
    progress = wire.LearnerProgress(learner_id=scene.learner.id, step=1)
    data = safetensors(9)
    client.upload(data, sha256(data))
    training: dict[str, Any] = {"kind": "training", "player_id": scene.learner.player_id, "count": 1, "budget": 1}
    rating: dict[str, Any] = {"kind": "rating", "environment": scene.environment, "count": 2, "budget": 1}
    return {
        "register learner": lambda: client.learner(
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
        with pytest.raises(ForbiddenError, match=r"of token 'bob': (worker|learner) '.*' belongs to token 'ann'"):
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
    with pytest.raises(ForbiddenError, match="learner 'main' belongs to token 'ann'"):
        stranger.lease(asked)
    progress = wire.LearnerProgress(learner_id=scene.learner.id, step=1)
    with pytest.raises(ForbiddenError, match="learner 'main' belongs to token 'ann'"):
        stranger.heartbeat(worker.id, wire.Heartbeat(learners=[progress]))


def test_a_learner_of_an_open_league_is_nobodys_until_it_is_assigned(
    league: LeagueClient, connect: Connect, database: Database
) -> None:
    before = Scene(league)
    ann, bob, boss = connect("worker", "ann"), connect("worker", "bob"), connect("admin", "boss")
    for client in (ann, bob):
        with pytest.raises(ForbiddenError, match=r"'main' belongs to nobody; .*`league token assign (ann|bob) main`"):
            Scene(client)
        data = safetensors(1)
        client.upload(data, sha256(data))
        with pytest.raises(ForbiddenError, match="'main' belongs to nobody"):
            client.publish(wire.PlayerCreate(learner_id=before.learner.id, checkpoint=sha256(data), step=1))
    assert Scene(boss).learner.id == before.learner.id
    assign(database, "bob")
    assert Scene(bob).publish(1).learner_id == before.learner.id
    with pytest.raises(ForbiddenError, match="'main' belongs to token 'bob'"):
        Scene(ann)
    assign(database, "ann")
    assert Scene(ann).publish(2).learner_id == before.learner.id
    with pytest.raises(ForbiddenError, match="'main' belongs to token 'ann'"):
        Scene(bob)
    told = boss.log(kind="token", player_id=before.learner.player_id).items
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
    with pytest.raises(InvalidRequestError, match="token 'boss': its scope is admin"):
        assign(database, "boss")
    with pytest.raises(UnknownTokenError, match="nobody"):
        assign(database, "nobody")
    for learner, environment in (("other", "rps"), ("main", "recall")):
        with pytest.raises(UnknownLearnerError, match=f"{learner}: {environment} has no learner"):
            assign(database, "ann", learner, environment)


def worker_of(scene: Scene, **changes: Any) -> wire.WorkerCreate:
    fields = {"name": "trainer-1", "kind": "trainer", "version": "1", "signatures": [scene.signature]}
    return wire.WorkerCreate.model_validate(fields | changes)


def test_a_worker_of_an_open_league_goes_to_the_token_that_knows_its_instance(scene: Scene, connect: Connect) -> None:
    request = worker_of(scene, name="trainer-main", instance="known-to-one")
    worker = scene.client.register_worker(request)
    ann, bob = connect("worker", "ann"), connect("worker", "bob")
    with pytest.raises(ForbiddenError, match="'trainer-main' belongs to nobody; register it again, as the instance"):
        bob.heartbeat(worker.id)
    assert bob.register_worker(request.model_copy(update={"instance": "a-guess"})).id != worker.id
    assert ann.register_worker(request).id == worker.id
    with pytest.raises(ForbiddenError, match="'trainer-main' belongs to token 'ann'"):
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


def test_a_renewed_token_keeps_what_is_its_own(connect: Connect, http: TestClient, database: Database) -> None:
    scene = Scene(connect("worker", "ann"))
    with database.write() as session:
        tokens.revoke(session, "ann", NOW, actor="test")
        renewed = tokens.renew(session, "ann", NOW, actor="test")
    again = Scene(LeagueClient(http=http, token=renewed))
    assert again.learner.id == scene.learner.id
    assert again.trainer.id == scene.trainer.id


# --- how fast --------------------------------------------------------------------------------------------------------


def test_a_caller_may_call_at_its_rate_after_a_burst_and_others_are_not_slowed() -> None:
    callers = Callers(per_s=2.0, burst=10, memory_s=0.0)
    for _ in range(10):
        callers.admit("ann", "reads", NOW)
    with pytest.raises(RateLimitedError, match=r"from ann: .*2 calls a second.*10 at once") as refused:
        callers.admit("ann", "reads", NOW)
    assert refused.value.retry_after_s == 1
    callers.admit("bob", "reads", NOW)
    later = NOW + timedelta(seconds=1)
    for _ in range(2):
        callers.admit("ann", "reads", later)
    with pytest.raises(RateLimitedError):
        callers.admit("ann", "reads", later)


@ON_SQLITE
def test_whoever_looks_too_often_can_still_beat_and_report(
    serve: Callable[..., TestClient], database: Database
) -> None:
    http = serve(rate_per_s=1.0, rate_burst=30)
    with database.write() as session:
        secret = tokens.create(session, "ann", "worker", NOW, actor="test")
    client = LeagueClient(http=http, token=secret, patience=patience_of(0.0))
    scene = Scene(client)
    (lease,) = scene.opponent_leases(1)
    answers = [http.get("/api/v1/players", headers=client._headers).status_code for _ in range(31)]
    assert answers[0] == 200
    assert answers[-1] == 429
    with pytest.raises(RateLimitedError, match="of one caller in reads"):
        client.players()
    assert client.heartbeat(scene.trainer.id).command == "continue"
    assert [answer.status for answer in scene.report(result(lease))] == ["accepted"]


def test_waiting_as_long_as_is_said_is_long_enough() -> None:
    callers = Callers(per_s=0.3, burst=1, memory_s=0.0)
    now = NOW
    callers.admit("ann", "reads", now)
    for _ in range(20):
        with pytest.raises(RateLimitedError) as refused:
            callers.admit("ann", "reads", now)
        now += timedelta(seconds=refused.value.retry_after_s or 0)
        callers.admit("ann", "reads", now)


def test_a_call_dearer_than_the_burst_needs_the_whole_of_it() -> None:
    callers = Callers(per_s=1.0, burst=3, memory_s=0.0)
    callers.admit("ann", "reads", NOW, cost=100)
    with pytest.raises(RateLimitedError) as refused:
        callers.admit("ann", "reads", NOW, cost=100)
    assert refused.value.retry_after_s == 100
    callers.admit("ann", "reads", NOW + timedelta(seconds=100), cost=100)


def test_idle_callers_are_forgotten() -> None:
    callers = Callers(per_s=1.0, burst=3, memory_s=0.0)
    for number in range(10_000):
        callers.admit(f"address {number}", "reads", NOW)
    callers.admit("address again", "reads", NOW + timedelta(hours=1))
    assert len(callers._buckets) == 1


@ON_SQLITE
def test_too_many_calls_are_a_problem_that_says_when_to_call_again(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    http = serve(rate_per_s=1.0, rate_burst=3)
    with database.write() as session:
        secrets = [tokens.create(session, name, "read", NOW, actor="test") for name in ("ann", "bob")]
    ann, bob = ({"Authorization": f"Bearer {secret}"} for secret in secrets)
    answers = [http.get("/api/v1/players", headers=ann) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].headers["retry-after"] == "1"
    assert answers[-1].headers["content-type"] == "application/problem+json"
    assert answers[-1].json()["type"] == RateLimitedError.type
    assert "token 'ann'" in answers[-1].json()["detail"]
    assert http.get("/api/v1/players", headers=bob).status_code == 200
    time.advance(1)
    assert http.get("/api/v1/players", headers=ann).status_code == 200
    assert http.get("/healthz").status_code == 200


@ON_SQLITE
def test_whoever_tries_tokens_is_slowed_down_and_good_tokens_from_there_are_not(
    serve: Callable[..., TestClient], database: Database
) -> None:
    http = serve(rate_per_s=100.0, rate_burst=5 * REFUSED_COST)
    with database.write() as session:
        secret = tokens.create(session, "ann", "read", NOW, actor="test")
    tried = [http.get("/api/v1/players", headers={"Authorization": f"Bearer guess{n}"}) for n in range(6)]
    assert [answer.status_code for answer in tried] == [401] * 5 + [429]
    assert http.get("/api/v1/players", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
