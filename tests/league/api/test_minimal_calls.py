"""A trainer that sends required fields alone, and names no protocol, can play."""

from typing import Any

from fastapi.testclient import TestClient


def test_calls_need_required_fields_alone(http: TestClient) -> None:
    def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = http.post(f"/api/v1{path}", json=body)
        assert answer.is_success, answer.text
        made: dict[str, Any] = answer.json()
        return made

    known = {"environment": "rps", "signature": "rps-1"}
    worker = call("/workers", {"name": "plain", "kind": "trainer", "version": "0.1.0", "signatures": ["rps-1"]})
    learner = call("/learners", {"name": "plain", "role": "main", **known})
    own = {"worker_id": worker["id"]}
    asked = {"kind": "training", **own, "player_id": learner["player_id"], "count": 4, "budget": 2}
    leases = call("/leases", {**asked, "self_play": True})["items"]
    ended = {"sequence": 0, "score": 1.0, "decisions": 1, "reason": "decided", "learner_step": 64}
    results = [{"lease_id": lease["lease_id"], "seed": lease["seed"], **ended} for lease in leases]
    items = call("/results", {**own, "results": results})["items"]
    assert [item["status"] for item in items] == ["accepted"] * 4
    progress = {"learner_id": learner["id"], "step": 64, "metrics": {"charts/score": 1.0}}
    assert call(f"/workers/{worker['id']}/heartbeat", {"learners": [progress]})["command"] == "continue"
    assert call("/leases/release", {**own, "lease_ids": [leases[0]["lease_id"]]})
