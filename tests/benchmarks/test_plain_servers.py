"""The bare servers that the league's is measured beside do what they are for."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from benchmarks.server import plain_league, plain_results

LEASES = {"worker_id": "w", "player_id": 1, "count": 3, "budget": 1}
RESULT = {
    "lease_id": "a",
    "sequence": 0,
    "score": 1.0,
    "decisions": 5,
    "reason": "decided",
    "seed": 7,
    "learner_step": 1,
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'plain_results.db'}"


def test_the_floor_of_leases_and_heartbeats_answers_both(url: str) -> None:
    http = TestClient(plain_league.create_app(url))
    assert len(http.post("/api/v1/leases", json=LEASES).json()) == 3
    assert http.post("/api/v1/repeated", json=LEASES).content == http.post("/api/v1/repeated", json=LEASES).content
    assert http.post("/api/v1/workers/w/heartbeat", json={}).json() == {"command": "continue"}


def test_the_floor_of_results_takes_them_in(url: str) -> None:
    http = TestClient(plain_results.create_app(url))
    assert http.post("/api/v1/results", json={"worker_id": "w", "results": [RESULT, RESULT]}).json() == 2
