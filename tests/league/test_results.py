"""Results: exactly once, item by item."""

import json
import math
import select as polling
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from league_scene import ON_SQLITE, Scene, result
from pydantic import ValidationError
from sqlalchemy import Connection, event, func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from arena.seeding import match_seed
from league import wire
from league.client import LeagueClient
from league.db import locks
from league.db.engine import Database
from league.db.models import Match, Refusal
from league.errors import DatabaseUnavailableError, InvalidRequestError, UnknownWorkerError
from league.services import results
from league.services.terms import UNDECLARED, TermsCache

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


def test_a_response_lost_after_the_commit_is_made_good_by_sending_again(scene: Scene, http: TestClient) -> None:
    class LosesAnswers(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            http.send(request)
            raise httpx2.ReadError("connection reset")

    (lease,) = scene.opponent_leases(1)
    batch = wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease)])
    cut_off = LeagueClient(http=httpx2.Client(transport=LosesAnswers(), base_url="http://testserver"))
    with pytest.raises(Exception, match="no answer"):
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
def test_a_transaction_that_stood_still_for_too_long_is_sent_again(
    scene: Scene, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "SILENCE_S", 0.01)
    (lease,) = scene.opponent_leases(1)
    batch = wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease, behaviour=PLAYED)])

    def stand_still(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO matches"):
            assert polling.select([connection.connection.driver_connection], [], [], 60)[0], "it was not cut off"

    engine = http.app.state.league.database.engine
    event.listen(engine, "before_cursor_execute", stand_still)
    answer = http.post("/api/v1/results", json=batch.model_dump(mode="json"))
    event.remove(engine, "before_cursor_execute", stand_still)
    assert (answer.status_code, answer.json()["type"]) == (503, DatabaseUnavailableError.type)
    assert "idle-in-transaction timeout" in answer.json()["detail"]
    monkeypatch.undo()
    assert scene.client.report(batch).items[0].status == "accepted"


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


def test_late_result_inside_grace_counts_and_is_flagged(scene: Scene, time: Any) -> None:
    (lease,) = scene.opponent_leases(1)
    time.advance(361)
    (answer,) = scene.report(result(lease))
    assert answer.status == "accepted"
    assert "late" in str(answer.detail)
    assert scene.client.match(answer.match_id or 0).late
    (again,) = scene.report(result(lease))
    assert again == answer.model_copy(update={"status": "duplicate"})


def test_a_result_beyond_grace_is_rejected_but_its_first_answer_stands(scene: Scene, time: Any) -> None:
    told, untold = scene.opponent_leases(2)
    (first,) = scene.report(result(told))
    time.advance(360 + 3600 + 1)
    again, refused = scene.report(result(told), result(untold))
    assert (again.status, again.match_id) == ("duplicate", first.match_id)
    assert refused.status == "rejected"
    assert str(refused.detail).startswith(f"expired lease {untold.lease_id}")
    assert scene.matches() == 1


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
def test_an_impossible_result_is_rejected_by_name_and_fails_nobody_else(
    scene: Scene, changes: dict[str, Any], named: str
) -> None:
    bad, good = scene.opponent_leases(2, budget=2)
    refused, accepted = scene.report(result(bad, **changes), result(good))
    assert (refused.status, accepted.status) == ("rejected", "accepted")
    assert str(refused.detail).startswith(named)
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
    with pytest.raises(UnknownWorkerError, match="nobody"):
        scene.client.report(wire.ResultBatch(worker_id="nobody", results=[result(lease)]))


@ON_SQLITE
def test_an_unknown_field_is_refused_by_name(scene: Scene, http: TestClient) -> None:
    answer = http.post("/api/v1/results", json={"worker_id": scene.trainer.id, "results": [], "colour": "red"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == InvalidRequestError.type
    assert "colour" in answer.json()["value"]


def test_a_lease_s_whole_budget_and_margins_are_kept_as_reported(scene: Scene, time: Any) -> None:
    (lease,) = scene.opponent_leases(1, budget=3)
    answers = scene.report(*(result(lease, sequence, score=0.1 + sequence / 10) for sequence in range(3)))
    log = [scene.client.match(answer.match_id or 0) for answer in answers]
    assert [match.score for match in log] == [0.1, 0.2, 0.1 + 0.2]
    assert [match.sequence for match in log] == [0, 1, 2]
    assert {match.reported_at for match in log} == {time.now}
    assert isinstance(log[0].reported_at, datetime)
    assert log[0].reported_at.tzinfo is not None


# --- what is refused -------------------------------------------------------------------------------------------------


def refusals(database: Database) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(Refusal)) or 0


def test_a_refusal_is_told_again_as_it_was_also_when_the_rule_has_changed(
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


def test_a_conflict_is_told_again_as_it_was(scene: Scene, database: Database) -> None:
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


def test_a_refusal_of_a_stranger_s_report_does_not_stand_in_its_owner_s_way(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    stranger = scene.worker("trainer-2", "trainer")
    assert [scene.report(result(lease), worker=who)[0].status for who in (stranger, scene.trainer, stranger)] == [
        "rejected",
        "accepted",
        "rejected",
    ]


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
def test_an_item_that_is_no_result_is_rejected_and_fails_nobody_else(
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

    refused, accepted = send()
    assert (refused["status"], accepted["status"]) == ("rejected", "accepted")
    assert refused["detail"].startswith(named)
    assert [refused, accepted | {"status": "duplicate"}] == send()


@ON_SQLITE
def test_a_match_is_played_on_its_own_seed_or_on_its_lease_s(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1, budget=3)
    derived = [result(lease, sequence, seed=match_seed(lease.seed, sequence)) for sequence in (0, 1)]
    neighbour = result(lease, 2, seed=match_seed(lease.seed, 1))
    answers = scene.report(*derived, neighbour, result(lease, 2))
    assert [answer.status for answer in answers] == ["accepted", "accepted", "rejected", "accepted"]
    assert str(match_seed(lease.seed, 2)) in str(answers[2].detail)


@ON_SQLITE
def test_a_match_is_no_longer_than_its_environment_allows(scene: Scene, time: Any) -> None:
    declared = {"name": "main", "role": "main", "environment": scene.environment, "signature": scene.signature}
    (first,) = scene.opponent_leases(1, budget=2)
    assert scene.report(result(first, decisions=41))[0].status == "accepted"
    scene.client.learner(wire.LearnerCreate.model_validate(declared | {"max_decisions": 40}))
    time.advance(UNDECLARED.total_seconds())
    refused, accepted = scene.report(result(first, 1, decisions=41), result(first, 1, decisions=40))
    assert (refused.status, accepted.status) == ("rejected", "accepted")
    assert str(refused.detail).startswith("decisions 41")
    assert "1 to 40" in str(refused.detail)


@ON_SQLITE
def test_a_worker_that_plays_another_environment_now_cannot_report(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    other = wire.WorkerCreate(name="trainer-1", kind="trainer", version="2", signatures=["rps-2"])
    assert scene.client.register_worker(other).id == scene.trainer.id
    (answer,) = scene.report(result(lease))
    assert answer.status == "rejected"
    assert scene.signature in str(answer.detail)


LEASE, SEQUENCE = st.integers(0, 2), st.integers(-1, 2)
CHANGES = st.sampled_from([{}, {"score": 0.0}, {"score": 2.0}, {"decisions": 0}, {"seed": 3}, {"score": "x"}, {"y": 1}])


@ON_SQLITE
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=st.lists(st.lists(st.tuples(LEASE, SEQUENCE, CHANGES), max_size=8), max_size=4))
def test_whatever_is_sent_the_same_again_is_answered_as_the_first_time(
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


@pytest.mark.parametrize("kind", ["training", "rating"])
def test_a_process_remembers_leases_that_it_granted_as_the_database_has_them(
    kind: str, scene: Scene, http: TestClient, database: Database
) -> None:
    scene.publish(1)
    ids = [lease.lease_id for lease in (scene.lease(4) if kind == "training" else scene.rating_leases(4))]
    remembered: TermsCache = http.app.state.league.terms  # type: ignore[attr-defined]
    nowhere = Session()  # whoever reads from it fails
    with database.read() as session:
        assert remembered.terms(nowhere, ids) == TermsCache().terms(session, ids)


def test_a_process_remembers_leases_and_forgets_the_oldest(scene: Scene, database: Database) -> None:
    ids = [lease.lease_id for lease in scene.opponent_leases(3)]
    reads = 0

    def count(*_: object) -> None:
        nonlocal reads
        reads += 1

    cache = TermsCache(size=2)
    event.listen(database.engine, "before_cursor_execute", count)
    with database.read() as session:
        assert set(cache.terms(session, ids[:1])) == {ids[0]}
        assert set(cache.terms(session, [ids[1], "elsewhere"])) == {ids[1]}
        before = reads
        cache.terms(session, ids[:2])
        assert reads == before
        cache.terms(session, ids[2:])
        assert reads == before + 1
        cache.terms(session, ids[1:])
        assert reads == before + 1
        assert cache.terms(session, ids[:1])[ids[0]].worker_id == scene.trainer.id
        assert reads == before + 2
    event.remove(database.engine, "before_cursor_execute", count)


FIELDS = {"lease_id": "a", "sequence": 0, "score": 1, "decisions": 5, "reason": "decided", "seed": 7, "learner_step": 2}
VALUES = [0, -1, 2**63, 2**70, 1.0, 0.5, math.nan, math.inf, True, None, "1", "", "\ud800", [], {}]


@pytest.mark.parametrize("name", [*FIELDS, "behaviour", "more"])
def test_items_read_all_at_once_are_what_they_are_one_by_one(name: str) -> None:
    items: list[Any] = [*VALUES, FIELDS, *(FIELDS | {name: value} for value in VALUES)]
    read = wire.ReceivedBatch.model_validate({"worker_id": "w", "results": items}).results
    for item, apart in zip(items, read, strict=True):
        (alone,) = wire.ReceivedBatch.model_validate({"worker_id": "w", "results": [item]}).results
        assert repr(vars(alone)) == repr(vars(apart))  # NaN is not equal to NaN


def test_a_batch_has_a_most_however_its_items_are_read() -> None:
    items: list[Any] = [FIELDS] * (wire.results.BATCH_MAX + 1)
    for unlike in (items, [*items[1:], None]):
        with pytest.raises(ValidationError, match=f"at most {wire.results.BATCH_MAX}"):
            wire.ReceivedBatch.model_validate({"worker_id": "w", "results": unlike})


@given(st.data())
def test_batches_that_share_a_statement_are_each_told_of_their_own(data: st.DataObject) -> None:
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
