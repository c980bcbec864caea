"""Whatever comes in, the answer is the caller's error and not the server's."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, safetensors, sha256
from refused import assert_names

HUGE = 2**70
JSON = {"Content-Type": "application/json"}

QUERIES = [
    "players?environment=%00",
    "players?cursor=9223372036854775808",
    "players/9223372036854775808",
    "players/0",
    "players/-1/ratings",
    "players/1/matches?cursor=-5",
    "learners?environment=%00",
    "standings?environment=%00",
    "standings?environment=rps&as_of=9223372036854775808",
    "standings?environment=rps&limit=100000",
    "standings",
    "payoff?environment=%00",
    "matchmaking/preview?player=99999999999999999999",
    "matchmaking/preview",
    "rating-periods?environment=%00",
    "leases/%00",
    "leases/%FF",
    "matches/99999999999999999999/replay",
    "workers?cursor=%00",
    "checkpoints/../../etc/passwd",
]

BODIES: list[tuple[str, dict[str, Any]]] = [
    ("workers", {"name": "a\0b"}),
    ("workers", {"version": "\0"}),
    ("workers", {"signatures": ["a\0"]}),
    ("workers", {"signatures": "abc"}),
    ("learners", {"environment": "a\0"}),
    ("learners", {"name": "a b\n"}),
    ("players", {"learner_id": HUGE}),
    ("players", {"step": HUGE}),
    ("players", {"step": -1}),
    ("players", {"metadata": {"note": "\0"}}),
    ("players", {"metadata": {"loss": float("nan")}}),
    ("players", {"metadata": [1]}),
    ("leases", {"player_id": HUGE}),
    ("leases", {"worker_id": "\0"}),
    ("leases", {"count": 0}),
    ("leases", {"count": 10**6}),
    ("leases", {"budget": 0}),
    ("leases/release", {"lease_ids": ["\0"]}),
    ("results", {"worker_id": "\0"}),
    ("results", {"results": [{}] * 10_001}),
    ("rating-periods", {"environment": "\0"}),
    ("rating-periods", {"reason": "\0"}),
]

NO_BODIES = [b"", b"{", b"[]", b"null", b"\xff", b'{"a": "\\ud800"}', b"1" * 5000]

RESULTS: list[dict[str, Any]] = [
    {"lease_id": "\0"},
    {"lease_id": "x" * 10_000},
    {"sequence": HUGE},
    {"sequence": -HUGE},
    {"decisions": HUGE},
    {"seed": -1},
    {"learner_step": HUGE},
    {"reason": "\0"},
    {"score": float("-inf")},
    {"behaviour": {"measures": ["m", "m"], "home": [1.0, 1.0], "away": [1.0, 1.0]}},
]


def test_odd_queries_are_answered(http: TestClient) -> None:
    for path in QUERIES:
        assert http.get(f"/api/v1/{path}").status_code in (404, 422), path


def test_odd_bodies_are_refused_naming_the_field(scene: Scene, http: TestClient) -> None:
    sound: dict[str, dict[str, Any]] = {
        "workers": {"name": "a", "kind": "trainer", "version": "1", "signatures": []},
        "learners": {"name": "other", "role": "main", "environment": "rps", "signature": "rps-1"},
        "players": {"learner_id": scene.learner.id, "checkpoint": "0" * 64, "step": 1},
        "leases": {
            "kind": "training",
            "worker_id": scene.trainer.id,
            "player_id": scene.learner.player_id,
            "count": 1,
            "budget": 1,
        },
        "leases/release": {"worker_id": scene.trainer.id, "lease_ids": []},
        "results": {"worker_id": scene.trainer.id, "results": []},
        "rating-periods": {},
    }
    for path, changes in BODIES:
        answer = http.post(f"/api/v1/{path}", content=json.dumps(sound[path] | changes), headers=JSON)
        assert answer.status_code == 422, (path, changes)
        assert "\n" not in answer.json()["detail"]
        assert "value error" not in answer.json()["detail"]
        assert next(iter(changes)) in answer.json()["value"]


def test_malformed_body_is_rejected(http: TestClient) -> None:
    for path in ("workers", "learners", "players", "leases", "results", "rating-periods"):
        for body in NO_BODIES:
            answer = http.post(f"/api/v1/{path}", content=body, headers=JSON)
            assert answer.status_code == 422, (path, body)
            assert answer.headers["content-type"] == "application/problem+json"


def test_odd_results_are_rejected_one_by_one(scene: Scene, http: TestClient) -> None:
    (lease,) = scene.opponent_leases(1)
    good = {"lease_id": lease.lease_id, "sequence": 0, "score": 1, "decisions": 1, "reason": "r", "seed": lease.seed}
    body = json.dumps({"worker_id": scene.trainer.id, "results": [*(good | changes for changes in RESULTS), good]})
    answer = http.post("/api/v1/results", content=body, headers=JSON)
    assert answer.status_code == 200
    assert [item["status"] for item in answer.json()["items"]] == ["rejected"] * len(RESULTS) + ["accepted"]
    assert "value error" not in answer.text


@ON_SQLITE
@pytest.mark.parametrize(
    ("path", "methods"),
    [("players", "GET, POST"), (f"checkpoints/{'0' * 64}", "GET, HEAD, PUT"), ("results", "POST")],
)
def test_a_method_that_a_path_lacks_is_refused_naming_those_it_has(http: TestClient, path: str, methods: str) -> None:
    answer = http.delete(f"/api/v1/{path}")
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)


@ON_SQLITE
@pytest.mark.parametrize("number", [False, True, "3", "", None, [], 0.5])
def test_only_json_integers_are_accepted_as_integers(scene: Scene, http: TestClient, number: object) -> None:
    body = {"kind": "rating", "worker_id": scene.evaluator.id, "environment": "rps", "count": number, "budget": 1}
    answer = http.post("/api/v1/leases", json=body)
    assert answer.status_code == 422
    assert "count" in answer.json()["value"]


@ON_SQLITE
@pytest.mark.parametrize("path", ["workers", "learners"])
@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"name": "\xff"}', "UTF-8"),
        (b"[" * 100_000, "JSON"),
    ],
)
def test_unparsable_body_error_names_the_reason(http: TestClient, path: str, body: bytes, value: str) -> None:
    answer = http.post(f"/api/v1/{path}", content=body, headers=JSON)
    assert answer.status_code == 422
    assert_names(answer.json()["detail"], value)


@ON_SQLITE
def test_an_empty_value_is_shown_as_one(scene: Scene, http: TestClient) -> None:
    answer = http.get("/api/v1/players?environment=").json()
    assert (answer["value"], answer["detail"].split(":")[0]) == ("", "unknown environment ''")


@ON_SQLITE
def test_error_messages_are_bounded_in_length(scene: Scene, http: TestClient) -> None:
    data = safetensors(1, signature=200_000 * "s")
    scene.client.upload(data, sha256(data))
    body = {"learner_id": scene.learner.id, "checkpoint": sha256(data), "step": 1}
    for answer in (http.post("/api/v1/players", json=body), http.get(f"/api/v1/players?environment={50_000 * 'e'}")):
        assert answer.status_code in (404, 409)
        assert len(answer.content) < 10_000


@ON_SQLITE
def test_missing_discriminator_field_is_named(scene: Scene, http: TestClient) -> None:
    answer = http.post("/api/v1/leases", json={"worker_id": scene.evaluator.id}).json()
    assert_names(answer["rule"], "kind")
