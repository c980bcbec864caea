"""Calls name the protocol they are made by; who speaks another is told which side to bring up to date."""

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result
from refused import assert_names, refused

from league.client import LeagueClient
from league.client import endpoint as client_side
from league.wire import PREFIX, PROTOCOL, PROTOCOL_HEADER

pytestmark = ON_SQLITE

NEWER = str(PROTOCOL + 1)


@pytest.mark.parametrize("headers", [{}, {PROTOCOL_HEADER: "1"}, {PROTOCOL_HEADER.lower(): str(PROTOCOL)}])
def test_calls_by_a_known_protocol_or_by_none_are_answered(http: TestClient, headers: dict[str, str]) -> None:
    assert http.get(f"{PREFIX}/learners", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("asked", "value"),
    [(NEWER, NEWER), ("0", "install echelon-league"), ("one", "install echelon-league")],
)
def test_another_protocol_is_refused_and_the_side_to_update_is_named(http: TestClient, asked: str, value: str) -> None:
    answer = http.get(f"{PREFIX}/learners", headers={PROTOCOL_HEADER: asked})
    assert answer.status_code == 400
    problem = answer.json()
    assert (problem["type"], problem["value"]) == ("unsupported-protocol", asked)
    assert_names(problem["detail"], value)
    assert problem["request_id"] == answer.headers["X-Request-ID"]


def test_rejected_call_has_no_effect(
    scene: Scene, http: TestClient, league: LeagueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lease,) = scene.opponent_leases(1)
    monkeypatch.setattr(client_side, "PROTOCOL", PROTOCOL + 1)
    scene.client = LeagueClient(http=http)
    with refused("unsupported-protocol"):
        scene.report(result(lease))
    scene.client = league
    assert scene.matches() == 0
    assert scene.report(result(lease))[0].status == "accepted"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json"])
def test_only_worker_calls_require_a_protocol_version(http: TestClient, path: str) -> None:
    assert http.get(path, headers={PROTOCOL_HEADER: NEWER}).status_code == 200
