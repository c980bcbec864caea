"""Overview: the state of the league on one page."""

import re
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene

from league import wire
from league.client import LeagueClient

FINDING = wire.HealthVerdict(
    name="entropy_collapsed", severity="warning", since_update=3, meaning="few tries", evidence="0.01", advice="more"
)


@pytest.fixture
def backend() -> str:
    return "sqlite"


def beat(scene: Scene, step: int, **more: Any) -> None:
    progress = wire.LearnerProgress(learner_id=scene.learner.id, step=step, metrics={"charts/SPS": 1234.5}, **more)
    scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))


def text(page: str) -> str:
    """Return a page without tags."""
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", "", page))


def test_old_links_to_standings_still_lead_there(http: TestClient, scene: Scene) -> None:
    answer = http.get("/?sort=games&q=main", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (308, "/standings?sort=games&q=main")
    assert http.get("/?offset=100", follow_redirects=False).headers["location"] == "/standings?offset=100"
    assert http.get("/?environment=rps", follow_redirects=False).status_code == 200


def test_overview_of_a_new_league_has_empty_states(http: TestClient, scene: Scene) -> None:
    page = text(http.get("/").text)
    for shown in ("none yet", "no rating period yet", "0 of 1 in training", "2 attached", "No learner and no worker"):
        assert shown in page
    assert http.get("/overview/ratings").json() == {"lines": []}


def test_overview_shows_champion_population_and_progress(
    http: TestClient, league: LeagueClient, scene: Scene, time: Any
) -> None:
    first = scene.publish(1)
    time.advance(2 * 86400)
    second = scene.publish(2)
    scene.evaluate(40, winner=second.id)
    league.close_period()
    league.set_champion(second.id, "first", expected=None)
    beat(scene, 64, verdicts=[])
    sign = league.player(second.id).call_sign
    page = text(http.get("/overview/now").text)
    for shown in (f"★ Champion {sign}", "4 active players", "1 of 1 in training", "1,234 steps/s", "healthy"):
        assert shown in page
    ratings = {one.id: one.rating for one in league.players("rps").items}
    assert f"{ratings[second.id] - ratings[first.id]:+.0f}" in page
    (line,) = http.get("/overview/ratings").json()["lines"]
    assert line["label"] == "main"
    assert line["xs"][1] - line["xs"][0] == timedelta(days=2).total_seconds()
    assert line["values"] == [round(ratings[each.id], 1) for each in (first, second)]


def test_overview_lists_findings_and_trainers_that_stopped_within_a_day(
    http: TestClient, scene: Scene, time: Any
) -> None:
    beat(scene, 64, verdicts=[FINDING])
    page = text(http.get("/").text)
    assert "0 alarms 1 warning" in page
    assert "warning main: entropy collapsed" in page
    time.advance(3600)
    assert "main: stopped reporting, 1 h ago" in text(http.get("/").text)
    second = wire.LearnerCreate(name="second", role="main", environment="rps", signature="rps-1")
    learner = scene.client.register_learner(second)
    progress = wire.LearnerProgress(learner_id=learner.id, step=64, metrics={"charts/SPS": 1.0})
    scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))
    time.advance(3600)
    page = text(http.get("/").text)
    assert "main and 1 other: stopped reporting" in page
    assert "2 warnings" in page
    time.advance(86400)
    assert "No learner and no worker needs attention" in text(http.get("/").text)
