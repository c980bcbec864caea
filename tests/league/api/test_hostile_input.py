"""What no honest caller sends: refused in one line, kept nowhere, and in nobody else's way."""

import json
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result, safetensors, sha256

from league import wire
from league.client import LeagueClient

PREFIX = "/api/v1"
PROBLEM = {"type", "title", "status", "detail", "value", "rule", "remedy", "request_id"}
SURROGATE = "\ud800"


def require_problem(answer: httpx2.Response, status: int, kind: str) -> str:
    """Return the one line of an error after checking the document's form."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    document: dict[str, Any] = answer.json()
    assert document.keys() >= PROBLEM
    assert (document["type"], document["status"]) == (kind, status)
    detail = str(document["detail"])
    assert "\n" not in detail
    return detail


def post(http: TestClient, path: str, body: object) -> httpx2.Response:
    """Send JSON as the standard library writes it: NaN and lone surrogates included."""
    content = json.dumps(body).encode()
    return http.post(PREFIX + path, content=content, headers={"Content-Type": "application/json"})


def publish_with(scene: Scene, http: TestClient, metadata: object) -> httpx2.Response:
    data = safetensors()
    scene.client.upload(data, sha256(data))
    body = {"learner_id": scene.learner.id, "checkpoint": sha256(data), "step": 1, "metadata": metadata}
    return post(http, "/players", body)


def test_text_that_is_not_unicode_is_refused(scene: Scene, http: TestClient) -> None:
    snapshot = scene.publish(step=1)
    calls: list[tuple[str, object]] = [
        ("/results", {"worker_id": SURROGATE, "results": []}),
        ("/leases/release", {"worker_id": scene.trainer.id, "lease_ids": [SURROGATE]}),
        ("/workers", {"name": SURROGATE, "kind": "trainer", "version": "1", "signatures": []}),
        (f"/players/{snapshot.id}/retire", {"reason": SURROGATE}),
    ]
    for path, body in calls:
        require_problem(post(http, path, body), 422, "invalid-request")
    assert scene.matches() == 0
    assert scene.client.player(snapshot.id).standing == "candidate"


@pytest.mark.parametrize("nested", [200, 300, 900])
def test_metadata_too_deep_to_read_back_is_refused_and_lists_stay_readable(
    scene: Scene, http: TestClient, nested: int
) -> None:
    deep: object = []
    for _ in range(nested):
        deep = [deep]
    require_problem(publish_with(scene, http, {"deep": deep}), 422, "invalid-request")
    assert scene.client.players(scene.environment, kind="snapshot").items == []


@pytest.mark.parametrize("metadata", [{"a": SURROGATE}, {SURROGATE: 1}, {"a": "x" * wire.METADATA_MAX_BYTES}])
def test_metadata_that_no_answer_can_carry_is_refused(
    scene: Scene, http: TestClient, metadata: dict[str, object]
) -> None:
    require_problem(publish_with(scene, http, metadata), 422, "invalid-request")
    assert scene.client.players(scene.environment, kind="snapshot").items == []


@ON_SQLITE
@pytest.mark.parametrize("content", [b"{", b'{"worker_id": "\xff"}', b"[" * 100_000, b'{"a": ' + b"9" * 5_000 + b"}"])
def test_a_body_that_is_not_json_is_an_invalid_request(http: TestClient, content: bytes) -> None:
    answer = http.post(PREFIX + "/results", content=content, headers={"Content-Type": "application/json"})
    assert "body" in require_problem(answer, 422, "invalid-request")


@ON_SQLITE
def test_wrong_content_type_error_names_the_right_one(http: TestClient) -> None:
    answer = http.post(PREFIX + "/results", content=b'{"worker_id": "x", "results": []}')
    assert "Content-Type: application/json" in require_problem(answer, 422, "invalid-request")


@ON_SQLITE
def test_a_batch_of_conflicts_alone_is_a_problem_that_carries_the_items(scene: Scene, http: TestClient) -> None:
    (lease,) = scene.opponent_leases(1)
    (first,) = scene.report(result(lease, score=1.0))
    batch = {"worker_id": scene.trainer.id, "results": [result(lease, score=0.0).model_dump()]}
    answer = post(http, "/results", batch)
    assert str(first.match_id) in require_problem(answer, 409, "result-conflict")
    assert [item["status"] for item in answer.json()["items"]] == ["conflict"]


@ON_SQLITE
def test_minus_zero_is_the_same_score_as_zero(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    scene.report(result(lease, score=-0.0))
    (again,) = scene.report(result(lease, score=0.0))
    assert again.status == "duplicate"


@ON_SQLITE
def test_openapi_describes_problem_documents(http: TestClient) -> None:
    description = http.get("/openapi.json").json()
    for path, calls in description["paths"].items():
        for call in calls.values():
            assert {"default", "429", "503"} <= call["responses"].keys(), path
    for answer in description["components"]["responses"].values():
        assert answer["content"]["application/problem+json"]["schema"] == {"$ref": "#/components/schemas/Problem"}
    assert description["components"]["schemas"]["Problem"]["properties"].keys() == PROBLEM
    assert "HTTPValidationError" not in description["components"]["schemas"]


@ON_SQLITE
def test_a_client_reads_metadata_as_deep_as_the_server_takes(scene: Scene, league: LeagueClient) -> None:
    data = safetensors()
    league.upload(data, sha256(data))
    deep: object = []
    for _ in range(190):
        deep = [deep]
    request = wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(data), step=1, metadata={"deep": deep})
    published = league.publish(request)
    assert league.players(kind="snapshot").items == [published]
