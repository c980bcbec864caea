"""Results that cannot be, or come late: each is refused or flagged by itself, by name."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result
from pydantic import ValidationError
from refused import refused

from arena.seeding import match_seed
from league import wire
from league.errors import InvalidRequestError


def test_late_result_inside_grace_counts_and_is_flagged(scene: Scene, time: Any) -> None:
    (lease,) = scene.opponent_leases(1)
    time.advance(361)
    (answer,) = scene.report(result(lease))
    assert answer.status == "accepted"
    assert "late" in str(answer.detail)
    assert scene.client.match(answer.match_id or 0).late
    (again,) = scene.report(result(lease))
    assert again == answer.model_copy(update={"status": "duplicate"})


def test_late_result_is_rejected_unless_it_was_accepted_before(scene: Scene, time: Any) -> None:
    told, untold = scene.opponent_leases(2)
    (first,) = scene.report(result(told))
    time.advance(360 + 3600 + 1)
    again, refusal = scene.report(result(told), result(untold))
    assert (again.status, again.match_id) == ("duplicate", first.match_id)
    assert refusal.status == "rejected"
    assert str(refusal.detail).startswith(f"expired lease {untold.lease_id}")
    assert scene.matches() == 1


@pytest.mark.parametrize(
    ("seconds", "status", "late"),
    [(360, "accepted", False), (360.000001, "accepted", True), (360 + 3600, "accepted", True),
     (360 + 3600.000001, "rejected", None)],
)  # fmt: skip
def test_the_end_of_a_lease_and_of_its_grace_are_still_in_time(
    scene: Scene, time: Any, seconds: float, status: str, late: bool | None
) -> None:
    (lease,) = scene.opponent_leases(1)
    time.advance(seconds)
    (answer,) = scene.report(result(lease))
    assert answer.status == status
    if late is not None:
        assert scene.client.match(answer.match_id or 0).late == late
        assert ("late" in str(answer.detail)) == late


def test_a_result_of_a_foreign_lease_is_rejected(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    stranger = scene.worker("trainer-2", "trainer")
    (answer,) = scene.report(result(lease), worker=stranger)
    assert answer.status == "rejected"
    assert str(answer.detail).startswith(f"foreign lease {lease.lease_id}")
    assert scene.matches() == 0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"score": 1.7}, "score 1.7"),
        ({"score": -0.1}, "score -0.1"),
        ({"score": math.nan}, "score nan"),
        ({"score": math.inf}, "score inf"),
        ({"sequence": 2}, "sequence 2"),
        ({"sequence": -1}, "sequence -1"),
        ({"decisions": -3}, "decisions -3"),
        ({"decisions": 0}, "decisions 0"),
        ({"decisions": 2**63}, f"decisions {2**63}"),
        ({"seed": 2**63}, f"seed {2**63}"),
        ({"seed": 1}, "seed 1"),
        ({"learner_step": -1}, "learner_step -1"),
        ({"learner_step": 2**63}, f"learner_step {2**63}"),
        ({"reason": "x" * 65}, "reason 'xxx"),
    ],
)
@ON_SQLITE
def test_impossible_result_is_rejected_without_affecting_others(
    scene: Scene, changes: dict[str, Any], named: str
) -> None:
    bad, good = scene.opponent_leases(2, budget=2)
    refusal, accepted = scene.report(result(bad, **changes), result(good))
    assert (refusal.status, accepted.status) == ("rejected", "accepted")
    assert str(refusal.detail).startswith(named)
    assert scene.matches() == 1


@ON_SQLITE
def test_a_result_of_an_unknown_lease_is_rejected(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    (answer,) = scene.report(result(lease).model_copy(update={"lease_id": "elsewhere"}))
    assert answer.status == "rejected"
    assert str(answer.detail).startswith("unknown lease 'elsewhere'")


@ON_SQLITE
def test_results_of_an_unknown_worker_are_refused_whole(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    with refused("unknown-worker", "nobody"):
        scene.client.report(wire.ResultBatch(worker_id="nobody", results=[result(lease)]))


@ON_SQLITE
def test_an_unknown_field_is_refused_by_name(scene: Scene, http: TestClient) -> None:
    answer = http.post("/api/v1/results", json={"worker_id": scene.trainer.id, "results": [], "colour": "red"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == InvalidRequestError.type
    assert "colour" in answer.json()["value"]


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda item: item | {"score": "high"}, "unreadable result: score='high'"),
        (lambda item: item | {"sequence": 0.5}, "unreadable result: sequence=0.5"),
        (lambda item: item | {"colour": "red"}, "unreadable result: colour='red'"),
        (lambda item: {key: item[key] for key in ("lease_id", "sequence")}, "unreadable result: score="),
        (lambda item: item | {"lease_id": 7}, "unreadable result: lease_id=7"),
        (lambda item: item | {"reason": "\ud800"}, "unreadable result: reason='\\ud800'"),
        (lambda _: None, "unreadable result: item=None"),
        (lambda item: [item], "unreadable result: item=[{"),
    ],
)
@ON_SQLITE
def test_malformed_item_is_rejected_without_affecting_others(
    scene: Scene, http: TestClient, spoil: Callable[[Any], Any], named: str
) -> None:
    bad, good = scene.opponent_leases(2)
    items = [spoil(result(bad).model_dump()), result(good).model_dump()]

    def send() -> list[dict[str, Any]]:
        body = json.dumps({"worker_id": scene.trainer.id, "results": items})
        answer = http.post("/api/v1/results", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 200
        told: list[dict[str, Any]] = answer.json()["items"]
        return told

    refusal, accepted = send()
    assert (refusal["status"], accepted["status"]) == ("rejected", "accepted")
    assert refusal["detail"].startswith(named)
    assert [refusal, accepted | {"status": "duplicate"}] == send()


@ON_SQLITE
def test_a_match_is_played_on_its_own_seed_or_on_its_lease_s(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1, budget=3)
    derived = [result(lease, sequence, seed=match_seed(lease.seed, sequence)) for sequence in (0, 1)]
    neighbour = result(lease, 2, seed=match_seed(lease.seed, 1))
    answers = scene.report(*derived, neighbour, result(lease, 2))
    assert [answer.status for answer in answers] == ["accepted", "accepted", "rejected", "accepted"]
    assert str(match_seed(lease.seed, 2)) in str(answers[2].detail)


@ON_SQLITE
def test_a_match_is_no_longer_than_its_environment_allows(scene: Scene) -> None:
    declared = {"name": "main", "role": "main", "environment": scene.environment, "signature": scene.signature}
    (first,) = scene.opponent_leases(1, budget=2)
    assert scene.report(result(first, decisions=41))[0].status == "accepted"
    scene.client.register_learner(wire.LearnerCreate.model_validate(declared | {"max_decisions": 40}))
    refusal, accepted = scene.report(result(first, 1, decisions=41), result(first, 1, decisions=40))
    assert (refusal.status, accepted.status) == ("rejected", "accepted")
    assert str(refusal.detail).startswith("decisions 41")
    assert "1 to 40" in str(refusal.detail)


@ON_SQLITE
def test_a_longer_environment_raises_the_limit_of_a_running_server(scene: Scene) -> None:
    declared = {"role": "main", "environment": scene.environment, "signature": scene.signature}
    (first,) = scene.opponent_leases(1, budget=3)
    scene.client.register_learner(wire.LearnerCreate.model_validate(declared | {"name": "main", "max_decisions": 40}))
    assert scene.report(result(first, decisions=41))[0].status == "rejected"
    scene.client.register_learner(wire.LearnerCreate.model_validate(declared | {"name": "longer", "max_decisions": 50}))
    (accepted, refusal) = scene.report(result(first, 1, decisions=50), result(first, 2, decisions=51))
    assert (accepted.status, refusal.status) == ("accepted", "rejected")


@ON_SQLITE
def test_a_worker_that_plays_another_environment_now_cannot_report(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    other = wire.WorkerCreate(name="trainer-1", kind="trainer", version="2", signatures=["rps-2"])
    assert scene.client.register_worker(other).id == scene.trainer.id
    (answer,) = scene.report(result(lease))
    assert answer.status == "rejected"
    assert scene.signature in str(answer.detail)


FIELDS = {"lease_id": "a", "sequence": 0, "score": 1, "decisions": 5, "reason": "decided", "seed": 7, "learner_step": 2}
VALUES = [0, -1, 2**63, 2**70, 1.0, 0.5, math.nan, math.inf, True, None, "1", "", "\ud800", [], {}]


@pytest.mark.parametrize("name", [*FIELDS, "behaviour", "more"])
def test_batch_parsing_equals_parsing_items_one_by_one(name: str) -> None:
    items: list[Any] = [*VALUES, FIELDS, *(FIELDS | {name: value} for value in VALUES)]
    read = wire.ResultReport.model_validate({"worker_id": "w", "results": items}).results
    for item, apart in zip(items, read, strict=True):
        (alone,) = wire.ResultReport.model_validate({"worker_id": "w", "results": [item]}).results
        assert repr(vars(alone)) == repr(vars(apart))  # NaN is not equal to NaN


def test_a_batch_has_a_most_however_its_items_are_read() -> None:
    items: list[Any] = [FIELDS] * (wire.results.BATCH_MAX + 1)
    for unlike in (items, [*items[1:], None]):
        with refused(ValidationError, wire.results.BATCH_MAX):
            wire.ResultReport.model_validate({"worker_id": "w", "results": unlike})
