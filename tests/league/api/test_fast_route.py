"""Frequent calls that take the shortcut are answered as the framework would answer them."""

import inspect
import json
from typing import Any, get_type_hints

import pytest
from fastapi.responses import Response
from fastapi.testclient import TestClient
from league_scene import Scene, result

from league.api import dependencies
from league.api.routers import leases, results, workers
from league.client import LeagueClient
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.auth import tokens
from league.services.matchmaking.leases import LeaseService

BATCH, LEASES, WORKERS = "/api/v1/results", "/api/v1/leases", "/api/v1/workers"
STRAIGHT = "application/json"
ROUND_ABOUT = "application/json; charset=utf-8"
"""What the shortcut leaves to the framework, which reads it as the other."""
BOTH = STRAIGHT, ROUND_ABOUT

ATTACH = {"name": "w", "kind": "trainer", "version": "1", "signatures": ["rps-1"]}
BODIES: dict[str, Any] = {
    "nothing": b"",
    "no object": b"[]",
    "empty": b"{}",
    "cut off": b'{"name": "w"',
    "no text": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "a long number": b'{"step": ' + b"1" * 5_000 + b"}",
    "a worker": ATTACH,
    "a worker, with more": ATTACH | {"more": 1},
    "a worker, twice": (json.dumps(ATTACH)[:-1] + ', "name": "v"}').encode(),
    "a lone surrogate": json.dumps(ATTACH | {"version": "\ud800"}).encode(),
    "not a number": b'{"learners": [{"learner_id": NaN}]}',
    "leases without a kind": {"worker_id": "w", "count": 1},
    "leases of nobody": {"kind": "training", "worker_id": "w", "player_id": 7, "count": 1, "budget": 1},
    "leases as text": {"kind": "training", "worker_id": "w", "player_id": "7", "count": True, "budget": 1.5},
    "results of nobody": {"worker_id": "w", "results": [{"lease_id": "x"}, 7, None]},
    "progress of nobody": {"learners": [{"learner_id": 99, "step": 1, "metrics": {"loss": 1e400}}]},
}


@pytest.fixture
def backend() -> str:
    return "sqlite"


def send(client: TestClient, path: str, body: Any, content_type: str, token: str | None = None) -> tuple[Any, ...]:
    """Return status, headers and body of the answer, without what differs from call to call."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": content_type, "X-Request-ID": "asked"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    answer = client.post(path, content=content, headers=headers)
    told = {name: value for name, value in answer.json().items() if name not in ("id", "next_poll_s")}
    return answer.status_code, {**answer.headers, "content-length": None}, told


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_both_ways_answer_alike(http: TestClient, body: Any) -> None:
    worker = Scene(LeagueClient(http=http)).trainer.id
    for path in (BATCH, LEASES, WORKERS, f"{WORKERS}/{worker}/heartbeat", f"{WORKERS}/no%00body/heartbeat"):
        assert send(http, path, body, STRAIGHT) == send(http, path, body, ROUND_ABOUT)


@pytest.mark.parametrize(("secret", "status"), [(None, 401), ("nobody's", 401), ("of read", 403), ("of worker", 201)])
def test_fast_route_authenticates_the_same_callers(
    http: TestClient, database: Database, time: Any, secret: str | None, status: int
) -> None:
    worker = Scene(LeagueClient(http=http)).trainer.id
    with database.write() as session:
        made = {
            f"of {word}": tokens.create(session, word, word, Cause("test", "", time.now)) for word in ("read", "worker")
        }
    for path, body in ((WORKERS, ATTACH | {"name": "new"}), (f"{WORKERS}/{worker}/heartbeat", {})):
        straight, round_about = (send(http, path, body, kind, made.get(str(secret), secret)) for kind in BOTH)
        assert straight == round_about
        assert straight[0] == (403 if status == 201 and path != WORKERS else status)  # the worker is nobody's


def test_frequent_calls_do_not_solve_dependencies(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(LeagueClient(http=http))

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("fastapi.routing.solve_dependencies", fail)
    leased = scene.lease(2)
    assert [item.status for item in scene.report(*map(result, leased))] == ["accepted", "accepted"]
    assert send(http, f"{WORKERS}/{scene.trainer.id}/heartbeat", {}, STRAIGHT)[0] == 200
    assert send(http, WORKERS, ATTACH, STRAIGHT)[0] == 201
    assert send(http, WORKERS, ATTACH, ROUND_ABOUT)[0] == 500


def test_frequent_calls_are_counted_under_their_routes(http: TestClient) -> None:
    worker = Scene(LeagueClient(http=http)).trainer.id
    for kind in BOTH:
        send(http, f"{WORKERS}/{worker}/heartbeat", {}, kind)
    counted = 'league_requests_total{method="POST",route="/api/v1/workers/{worker_id}/heartbeat",status="200"} 2.0'
    assert counted in http.get("/metrics").text


@pytest.mark.parametrize("kind", BOTH)
def test_a_defect_is_a_problem_either_way(http: TestClient, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    scene = Scene(LeagueClient(http=http))
    monkeypatch.setattr(LeaseService, "grant", fail)
    asked = {
        "kind": "training", "worker_id": scene.trainer.id, "player_id": scene.learner.player_id, "count": 1, "budget": 1
    }  # fmt: skip
    status, headers, told = send(http, LEASES, asked, kind)
    assert (status, told["type"], told["request_id"]) == (500, "internal", "asked")
    assert headers["x-request-id"] == "asked"


def test_invalid_body_is_counted_once(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(http.app.state.league.rate_limiter, "admit", lambda *given: seen.append(given))
    assert send(http, WORKERS, {}, STRAIGHT)[0] == 422
    assert len(seen) == 1


def test_fast_endpoints_take_nothing_that_they_are_not_given() -> None:
    routes = [route for each in (results, leases, workers) for route in each.router.routes if takes_fast_way(route)]
    assert [route.path for route in routes] == [BATCH, LEASES, WORKERS, f"{WORKERS}/{{worker_id}}/heartbeat"]
    for route in routes:
        taken = set(inspect.signature(route.endpoint).parameters)
        assert taken == {"league", "now", "caller", "body", *route.param_convertors}
        hints = get_type_hints(route.endpoint, include_extras=True)
        given = (dependencies.Running, dependencies.Now, dependencies.Worker)
        assert tuple(hints[name] for name in ("league", "now", "caller")) == given


def takes_fast_way(route: Any) -> bool:
    return get_type_hints(route.endpoint).get("return") is Response
