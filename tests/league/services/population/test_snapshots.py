"""Workers attach, learners are found or founded, snapshots are published."""

import math
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result, safetensors, sha256
from onnx_models import linear
from refused import refused
from sqlalchemy import event

from arena.environments.registry import baselines
from league import wire
from league.auth import Principal, Scope
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import (
    InvalidRequestError,
)
from league.services.workers import registration
from league.services.workers.registration import Registration

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def _note(statements: Counter[str], by: str, *_: object) -> None:
    statements[by] += 1


def learner_request(**changes: Any) -> wire.LearnerCreate:
    fields = {"name": "main", "role": "main", "environment": "rps", "signature": "rps-1"} | changes
    return wire.LearnerCreate.model_validate(fields)


def test_reregistered_worker_keeps_its_id(league: LeagueClient) -> None:
    request = wire.WorkerCreate(name="a", kind="trainer", version="1", signatures=["x"])
    first = league.register_worker(request)
    again = league.register_worker(request.model_copy(update={"version": "2", "signatures": ["y"]}))
    other = league.register_worker(request.model_copy(update={"kind": "evaluator"}))
    assert again.id == first.id != other.id
    assert (again.version, again.signatures) == ("2", ["y"])
    assert first.heartbeat_s == 120
    assert {worker.id for worker in league.workers().items} == {first.id, other.id}


def test_two_instances_of_one_name_are_two_workers(scene: Scene) -> None:
    def attach(instance: str | None, name: str = "trainer-main") -> wire.Worker:
        request = wire.WorkerCreate(
            name=name, kind="trainer", version="1", signatures=[scene.signature], instance=instance
        )
        return scene.client.register_worker(request)

    first, second = attach("a"), attach("b")
    assert (first.name, second.name) == ("trainer-main", "trainer-main #2")
    assert first.id != second.id
    (own,) = scene.lease(worker=first)
    assert scene.report(result(own), worker=second)[0].status == "rejected"
    assert scene.report(result(own), worker=first)[0].status == "accepted"
    scene.client.command_worker(first.id, "stop")
    assert scene.client.heartbeat(second.id).command == "continue"
    assert [attach(instance).id for instance in ("a", "b", "c")][:2] == [first.id, second.id]


def test_a_worker_attaches_as_quickly_however_many_share_its_name(
    database: Database,
) -> None:
    statements = Counter[str]()

    def attach(instance: str) -> str:
        request = wire.WorkerCreate(name="100%_a", kind="trainer", version="1", signatures=[], instance=instance)
        note = partial(_note, statements, instance)
        with database.write() as session:
            event.listen(database.engine, "before_cursor_execute", note)
            ann = Principal("ann", Scope.WORKER)
            (worker,) = registration.register(session, [Registration(request, ann, NOW)])
            event.remove(database.engine, "before_cursor_execute", note)
        return str(worker["name"])

    names = [attach(f"{place}") for place in range(20)]
    assert names == ["100%_a", *(f"100%_a #{number}" for number in range(2, 21))]
    assert statements["19"] == statements["1"]


def test_racing_registrations_of_one_instance_are_one_worker(scene: Scene) -> None:
    def attach(place: int) -> str:
        instance = f"instance-{place % 2}"
        request = wire.WorkerCreate(name="new", kind="trainer", version="1", signatures=["x"], instance=instance)
        return scene.client.register_worker(request).id

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(attach, range(16)))
    assert len(set(ids[::2])) == len(set(ids[1::2])) == 1
    assert ids[0] != ids[1]


def test_worker_command_is_repeated_until_reregistration(scene: Scene) -> None:
    assert scene.client.heartbeat(scene.trainer.id).command == "continue"
    assert scene.client.command_worker(scene.trainer.id, "drain").command == "drain"
    assert scene.client.heartbeat(scene.trainer.id).command == "drain"
    assert scene.worker("trainer-1", "trainer").command == "continue"


def test_a_heartbeat_keeps_the_latest_metrics(scene: Scene, http: TestClient, time: Any) -> None:
    for step, loss in ((1, 0.5), (2, math.nan)):
        progress = wire.LearnerProgress(learner_id=scene.learner.id, step=step, metrics={"loss": loss, "kl": 0.01})
        scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))
    (learner,) = scene.client.learners(scene.environment).items
    assert (learner.step, learner.metrics, learner.metrics_at) == (2, {"loss": None, "kl": 0.01}, time.now)
    time.advance(5)
    assert http.post(f"/api/v1/workers/{scene.trainer.id}/heartbeat").status_code == 200
    assert scene.client.workers().items[0].seen_at <= time.now
    assert scene.client.learners().items[0].step == 2


@ON_SQLITE
def test_heartbeat_of_unknown_worker_or_learner_is_rejected(scene: Scene) -> None:
    with refused("unknown-worker", "nobody"):
        scene.client.heartbeat("nobody")
    progress = wire.LearnerProgress(learner_id=77, step=1, metrics={})
    with refused("unknown-learner", 77):
        scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))


def test_a_learner_is_founded_once_with_the_environment_s_baselines(league: LeagueClient) -> None:
    first = league.register_learner(learner_request(environment="mech-duel"))
    assert league.register_learner(learner_request(environment="mech-duel")) == first
    second = league.register_learner(learner_request(environment="mech-duel", name="second", role="main_exploiter"))
    assert second.id != first.id
    players = league.players("mech-duel").items
    anchors = {player.name: player for player in players if player.kind == "baseline"}
    assert {name: anchor.rating for name, anchor in anchors.items()} == {
        baseline.name: baseline.rating for baseline in baselines("mech-duel")
    }
    assert {anchor.checkpoint for anchor in anchors.values()} == {f"baseline:{name}" for name in anchors}
    assert {anchor.deviation for anchor in anchors.values()} == {30.0}
    own = league.player(first.player_id)
    assert (own.kind, own.name, own.rating, own.deviation, own.checkpoint) == ("learner", "main", 1500, 350, None)
    assert (own.learner_id, own.role, own.provisional) == (first.id, "main", False)


def test_racing_founders_share_one_learner(serve: Callable[..., TestClient]) -> None:
    servers = [serve(), serve()]
    with ThreadPoolExecutor(16) as pool:
        founded = list(
            pool.map(
                lambda n: LeagueClient(http=servers[n % 2]).register_learner(learner_request()).player_id, range(16)
            )
        )
    assert len(set(founded)) == 1
    assert [player.name for player in LeagueClient(http=servers[0]).players().items] == ["random", "main"]


@ON_SQLITE
@pytest.mark.parametrize(("field", "value"), [("role", "main_exploiter"), ("signature", "rps-2")])
def test_a_learner_with_another_role_or_signature_is_refused_naming_both(
    league: LeagueClient, field: str, value: str
) -> None:
    stored = league.register_learner(learner_request())
    with refused("learner-mismatch", value) as refusal:
        league.register_learner(learner_request(**{field: value}))
    assert f"{field}={getattr(stored, field)}" in str(refusal.value)


@ON_SQLITE
def test_a_learner_cannot_take_a_baseline_s_name(league: LeagueClient) -> None:
    with refused("name-taken", "random"):
        league.register_learner(learner_request(name="random"))
    assert league.players().items == []


@ON_SQLITE
@pytest.mark.parametrize("changes", [{"role": "king"}, {"name": ""}, {"name": "a@b"}, {"environment": ""}])
def test_a_malformed_learner_is_refused_naming_the_field(http: TestClient, changes: dict[str, str]) -> None:
    body = {"name": "main", "role": "main", "environment": "rps", "signature": "rps-1"} | changes
    answer = http.post("/api/v1/learners", json=body)
    assert (answer.status_code, answer.json()["type"]) == (422, InvalidRequestError.type)
    assert next(iter(changes)) in answer.json()["value"]


def test_a_snapshot_is_published_once(scene: Scene) -> None:
    first = scene.publish(100)
    assert scene.publish(100) == first
    assert (first.kind, first.standing, first.name, first.step) == ("snapshot", "candidate", "main@100", 100)
    assert (first.learner_id, first.parent_id, first.role) == (scene.learner.id, None, "main")
    second = scene.publish(200)
    assert second.parent_id == first.id
    assert scene.client.learners().items[0].latest_snapshot == second.id
    other = scene.publish(200, content=9)
    assert other.id != second.id
    assert other.name.startswith("main@200-")


def test_racing_publishers_share_one_snapshot(serve: Callable[..., TestClient]) -> None:
    servers = [serve(), serve()]
    scene = Scene(LeagueClient(http=servers[0]))
    data = safetensors(1)
    scene.client.upload(data, sha256(data))
    request = wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(data), step=1)
    with ThreadPoolExecutor(16) as pool:
        ids = set(pool.map(lambda n: LeagueClient(http=servers[n % 2]).publish(request).id, range(16)))
    assert len(ids) == 1


def test_a_snapshot_keeps_its_metadata(scene: Scene) -> None:
    data = safetensors(5)
    scene.client.upload(data, sha256(data))
    metadata = {"git": "abc", "nested": {"loss": 0.25, "tags": ["a", None]}}
    request = wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(data), step=5, metadata=metadata)
    assert scene.client.player(scene.client.publish(request).id).metadata == metadata


@ON_SQLITE
@pytest.mark.parametrize("data", [safetensors(1, signature="chess-1"), linear(6, "move", 3, signature="chess-1")])
def test_a_policy_of_another_environment_is_refused_naming_both(scene: Scene, data: bytes) -> None:
    scene.client.upload(data, sha256(data))
    request = wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(data), step=1)
    with refused("signature-mismatch", "chess-1", "rps-1"):
        scene.client.publish(request)


@ON_SQLITE
def test_publishing_needs_an_uploaded_checkpoint_and_a_learner(scene: Scene) -> None:
    with refused("unknown-checkpoint", "0" * 64):
        scene.client.publish(wire.PlayerCreate(learner_id=scene.learner.id, checkpoint="0" * 64, step=1))
    data = safetensors(1)
    scene.client.upload(data, sha256(data))
    with refused("unknown-learner", 77):
        scene.client.publish(wire.PlayerCreate(learner_id=77, checkpoint=sha256(data), step=1))


def test_players_are_listed_by_filters_and_pages(scene: Scene) -> None:
    snapshots = [scene.publish(step) for step in range(5)]
    scene.client.promote(snapshots[3].id)
    client = scene.client
    assert [player.id for player in client.players("rps", "commander").items] == [snapshots[3].id]
    assert [player.name for player in client.players(kind="baseline").items] == ["random"]
    first = client.players("rps", kind="snapshot", limit=3)
    rest = client.players("rps", kind="snapshot", limit=3, cursor=first.next_cursor)
    assert [player.id for player in first.items + rest.items] == [player.id for player in snapshots]
    assert rest.next_cursor is None


def test_unknown_environment_error_lists_the_known_ones(league: LeagueClient) -> None:
    for listing in (league.players, league.learners):
        assert listing("rps").items == []  # a fresh league knows none yet
    Scene(league, "rps", "rps-1")
    Scene(league, "recall", "recall-1")
    for listing in (league.players, league.learners):
        with refused("unknown-environment", "rsp", "recall", "rps"):
            listing("rsp")


@ON_SQLITE
def test_unknown_players_and_impossible_pages_are_refused_by_name(scene: Scene, http: TestClient) -> None:
    with refused("unknown-player", 999):
        scene.client.player(999)
    with refused("invalid-request", 0):
        scene.client.players(limit=0)
    assert http.get("/api/v1/players/seven").json()["value"] == "path.player_id='seven'"
