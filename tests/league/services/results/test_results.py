"""Results: exactly once, item by item."""

import select as polling
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from league_scene import Scene, result
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from league import wire
from league.client import LeagueClient
from league.errors import DatabaseUnavailableError
from league.services.results import service as results

PLAYED = wire.Behaviour(measures=["range_m"], home=[1.0], away=[2.0])
"""With it a match takes a transaction of several statements."""


def counts(scene: Scene) -> tuple[list[list[int]], int]:
    return scene.client.payoff(scene.environment).counts, scene.matches()


def test_a_result_sent_again_is_a_duplicate_of_the_same_match(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    (first,) = scene.report(result(lease))
    before = counts(scene)
    (again,) = scene.report(result(lease))
    assert (first.status, again.status) == ("accepted", "duplicate")
    assert again.match_id == first.match_id is not None
    assert counts(scene) == before


def test_another_payload_under_the_same_key_conflicts_and_the_first_stays(scene: Scene, http: TestClient) -> None:
    (lease,) = scene.opponent_leases(1)
    (first,) = scene.report(result(lease, score=1.0))
    body = wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease, score=0.0)])
    answer = http.post("/api/v1/results", json=body.model_dump(mode="json"))
    assert answer.status_code == 409
    (item,) = wire.ResultBatchAnswer.model_validate_json(answer.content).items
    assert (item.status, item.match_id) == ("conflict", first.match_id)
    assert str(first.match_id) in str(item.detail)
    assert scene.client.match(first.match_id or 0).score == 1.0


OTHERWISE = {
    "score": [{"score": 0.5}],
    "decisions": [{"decisions": 6}],
    "reason": [{"reason": "resigned"}],
    "seed": [{"seed": 1}],
    "learner_step": [{"learner_step": 8}, {"learner_step": None}, {"learner_step": 0}],
    "behaviour": [
        {"behaviour": None},
        {"behaviour": PLAYED.model_copy(update={"measures": ["range_km"]})},
        {"behaviour": PLAYED.model_copy(update={"home": [3.0]})},
        {"behaviour": PLAYED.model_copy(update={"away": [3.0]})},
        {"behaviour": PLAYED.model_copy(update={"home": [2.0], "away": [1.0]})},
    ],
}
"""Other values for each field of a result besides its key."""


@pytest.mark.parametrize("changes", [each for values in OTHERWISE.values() for each in values], ids=repr)
def test_a_result_that_differs_in_any_field_conflicts_with_the_first(scene: Scene, changes: dict[str, Any]) -> None:
    (lease,) = scene.opponent_leases(1)
    first = result(lease, behaviour=PLAYED)
    assert [answer.status for answer in scene.report(first)] == ["accepted"]
    other = first.model_copy(update=changes)
    assert [answer.status for answer in scene.report(other)] == ["conflict"]
    assert [answer.status for answer in scene.report(first, other)] == ["duplicate", "conflict"]


@pytest.mark.parametrize("changes", [each for values in OTHERWISE.values() for each in values], ids=repr)
def test_a_payload_hash_depends_on_every_field(changes: dict[str, Any]) -> None:
    first = wire.Result(
        lease_id="a", sequence=0, score=1.0, decisions=5, reason="decided", seed=7, learner_step=7, behaviour=PLAYED
    )
    assert results._payload_hash(first.model_copy(update=changes)) != results._payload_hash(first)


def test_every_field_of_a_result_but_its_key_has_another_value_above() -> None:
    assert set(OTHERWISE) == set(wire.Result.model_fields) - {"lease_id", "sequence"}


def test_a_conflict_beside_other_items_does_not_fail_them(scene: Scene) -> None:
    one, other = scene.opponent_leases(2)
    scene.report(result(one))
    answers = scene.report(result(one, score=0.25), result(other), result(one))
    assert [answer.status for answer in answers] == ["conflict", "accepted", "duplicate"]


def test_the_same_key_twice_in_one_batch_counts_once(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    answers = scene.report(result(lease), result(lease), result(lease, score=0.0))
    assert [answer.status for answer in answers] == ["accepted", "duplicate", "conflict"]
    assert scene.matches() == 1


def test_resending_after_a_lost_response_is_a_duplicate(scene: Scene, http: TestClient) -> None:
    class LosesAnswers(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            http.request(request.method, str(request.url), content=request.read(), headers=dict(request.headers))
            raise httpx2.ReadError("connection reset")

    (lease,) = scene.opponent_leases(1)
    batch = wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease)])
    cut_off = LeagueClient(http=httpx2.Client(transport=LosesAnswers(), base_url="http://testserver"))
    with pytest.raises(Exception, match="no response"):
        cut_off.report(batch)
    before = counts(scene)
    assert before[1] == 1
    (answer,) = scene.client.report(batch).items
    assert answer.status == "duplicate"
    assert counts(scene) == before


@pytest.mark.parametrize(
    ("moment", "behaviour"), [("commit", PLAYED), ("before_cursor_execute", None), ("after_cursor_execute", PLAYED)]
)
def test_a_failing_commit_or_statement_is_a_server_error_and_keeps_nothing(
    scene: Scene, http: TestClient, moment: str, behaviour: wire.Behaviour | None
) -> None:
    (lease,) = scene.opponent_leases(1)
    batch = wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease, behaviour=behaviour)])

    def fail(*told: object) -> None:
        if moment == "commit" or "INSERT INTO matches" in str(told[2]):
            raise OperationalError("COMMIT", {}, Exception("disk I/O error"))

    engine = http.app.state.league.database.engine
    event.listen(engine, moment, fail)
    try:
        answer = http.post("/api/v1/results", json=batch.model_dump(mode="json"))
    finally:
        event.remove(engine, moment, fail)
    assert answer.status_code == 503
    assert answer.json()["type"] == DatabaseUnavailableError.type
    assert "disk I/O error" in answer.json()["detail"]
    assert scene.matches() == 0
    assert scene.client.report(batch).items[0].status == "accepted"


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_idle_transaction_is_cut_off_and_can_be_resent(scene: Scene, http: TestClient) -> None:
    (lease,) = scene.opponent_leases(1)
    batch = wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease, behaviour=PLAYED)])

    def stand_still(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO matches"):
            idle = connection.connection.driver_connection
            idle.execute("SET LOCAL idle_in_transaction_session_timeout = 10")  # ms; earlier pauses are not limited
            assert polling.select([idle], [], [], 60)[0], "it was not cut off"

    engine = http.app.state.league.database.engine
    event.listen(engine, "before_cursor_execute", stand_still)
    answer = http.post("/api/v1/results", json=batch.model_dump(mode="json"))
    event.remove(engine, "before_cursor_execute", stand_still)
    assert (answer.status_code, answer.json()["type"]) == (503, DatabaseUnavailableError.type)
    assert "idle-in-transaction timeout" in answer.json()["detail"]
    assert scene.client.report(batch).items[0].status == "accepted"


@pytest.mark.holds("T12")
def test_of_32_racing_senders_of_one_result_one_is_accepted(serve: Callable[..., TestClient]) -> None:
    servers = [serve(), serve()]
    scene = Scene(LeagueClient(http=servers[0]))
    (lease,) = scene.opponent_leases(1)
    batch = wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease)])

    def send(place: int) -> wire.ResultAnswer:
        return LeagueClient(http=servers[place % 2]).report(batch).items[0]

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(send, range(32)))
    assert sorted(answer.status for answer in answers) == ["accepted"] + ["duplicate"] * 31
    assert len({answer.match_id for answer in answers}) == 1
    assert scene.matches() == 1


def test_racing_batches_of_the_same_results_in_opposite_order_both_finish(scene: Scene) -> None:
    leases = scene.opponent_leases(20)
    forward = [result(lease) for lease in leases]

    def send(results: list[wire.Result]) -> list[wire.ResultAnswer]:
        return scene.report(*results)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, [forward, forward[::-1]] * 4))
    statuses = [answer.status for batch in answers for answer in batch]
    assert statuses.count("accepted") == 20
    assert statuses.count("duplicate") == 140


def test_all_results_of_a_lease_budget_are_stored_as_reported(scene: Scene, time: Any) -> None:
    (lease,) = scene.opponent_leases(1, budget=3)
    answers = scene.report(*(result(lease, sequence, score=0.1 + sequence / 10) for sequence in range(3)))
    log = [scene.client.match(answer.match_id or 0) for answer in answers]
    assert [match.score for match in log] == [0.1, 0.2, 0.1 + 0.2]
    assert [match.sequence for match in log] == [0, 1, 2]
    assert {match.reported_at for match in log} == {time.now}
    assert isinstance(log[0].reported_at, datetime)
    assert log[0].reported_at.tzinfo is not None


@given(st.data())
def test_batches_sharing_a_statement_get_their_own_answers(data: st.DataObject) -> None:
    keys = st.tuples(st.sampled_from("ab"), st.integers(0, 2))
    batches = data.draw(st.lists(st.sets(keys, min_size=1), min_size=1, max_size=4))
    stored: list[tuple[str, int]] = []

    def insert(_session: object, _table: object, rows: Sequence[dict[str, Any]], *_: object, **__: object) -> list[Any]:
        stored.extend((row["lease_id"], row["sequence"]) for row in rows)
        return [(*key, number, False) for number, key in enumerate(stored)]

    rows = [[{"lease_id": a, "sequence": b, "environment": "e"} for a, b in sorted(batch)] for batch in batches]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "insert_new", insert)
        told = results._insert_batches(Session(), rows)
    assert stored == sorted(set().union(*batches))
    for number, (batch, verdicts) in enumerate(zip(batches, told, strict=True)):
        assert verdicts.keys() == batch - set().union(*batches[:number])
        assert all(stored[verdict.match_id or 0] == key for key, verdict in verdicts.items())
