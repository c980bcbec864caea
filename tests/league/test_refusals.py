"""What was not taken is told again as it was the first time."""

from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from league_scene import ON_SQLITE, Scene, result
from sqlalchemy import func, select

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Match, Refusal


def refusals(database: Database) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(Refusal)) or 0


def test_repeated_rejection_has_the_same_answer_after_a_rule_change(
    serve: Callable[..., TestClient], time: Any, database: Database
) -> None:
    scene = Scene(LeagueClient(http=serve()))
    (lease,) = scene.opponent_leases(1)
    time.advance(360 + 3600 + 1)
    (refused,) = scene.report(result(lease))
    assert refused.status == "rejected"
    patient = LeagueClient(http=serve(lease_grace_s=86400))
    (again,) = patient.report(wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease)])).items
    assert again == refused
    assert (scene.matches(), refusals(database)) == (0, 1)


def test_repeated_conflict_has_the_same_answer(scene: Scene, database: Database) -> None:
    (lease,) = scene.opponent_leases(1)
    scene.report(result(lease))
    first = scene.report(result(lease, score=0.25))
    assert first[0].status == "conflict"
    assert scene.report(result(lease, score=0.25)) == first
    assert refusals(database) == 1


def test_a_refused_result_that_is_corrected_is_taken(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    (refused,) = scene.report(result(lease, score=1.5))
    (corrected,) = scene.report(result(lease, score=1.0))
    (again,) = scene.report(result(lease, score=1.5))
    assert (refused.status, corrected.status) == ("rejected", "accepted")
    assert again == refused


def test_rejection_of_another_workers_report_does_not_block_the_owner(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    stranger = scene.worker("trainer-2", "trainer")
    assert [scene.report(result(lease), worker=who)[0].status for who in (stranger, scene.trainer, stranger)] == [
        "rejected",
        "accepted",
        "rejected",
    ]


LEASE, SEQUENCE = st.integers(0, 2), st.integers(-1, 2)
CHANGES = st.sampled_from([{}, {"score": 0.0}, {"score": 2.0}, {"decisions": 0}, {"seed": 3}, {"score": "x"}, {"y": 1}])


@ON_SQLITE
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=st.lists(st.lists(st.tuples(LEASE, SEQUENCE, CHANGES), max_size=8), max_size=4))
def test_identical_report_gets_the_same_answer(
    scene: Scene, http: TestClient, database: Database, plan: list[list[tuple[int, int, dict[str, Any]]]]
) -> None:
    leases = [*scene.opponent_leases(2, budget=2), *scene.rating_leases(1)[:1]]
    if len(leases) < 3:
        leases.append(leases[0].model_copy(update={"lease_id": "elsewhere"}))

    def send(items: list[tuple[int, int, dict[str, Any]]]) -> list[dict[str, Any]]:
        results = [result(leases[lease], sequence).model_dump() | changes for lease, sequence, changes in items]
        answer = http.post("/api/v1/results", json={"worker_id": scene.trainer.id, "results": results})
        told: list[dict[str, Any]] = answer.json()["items"]
        return told

    def logged() -> int:
        with database.read() as session:
            return session.scalar(select(func.count()).select_from(Match)) or 0

    before = logged()
    first = [send(items) for items in plan]
    told = [answer for batch in first for answer in batch]
    after = logged()
    assert after - before == sum(answer["status"] == "accepted" for answer in told)
    taken = {"accepted": "duplicate"}
    again = [answer for items in plan for answer in send(items)]
    assert again == [answer | {"status": taken.get(answer["status"], answer["status"])} for answer in told]
    assert logged() == after
