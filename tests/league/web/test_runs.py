"""Runs pages: list, one run, and the difference between two."""

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene

from league import wire
from league.client import RunInfo


@pytest.fixture
def backend() -> str:
    return "sqlite"


def start(scene: Scene, rate: float, **origin: object) -> wire.Run:
    info = RunInfo({"ppo": {"learning_rate": rate}}, seed=7, origin=origin)
    return scene.client.start_run(info.request(scene.learner))


def test_without_runs_the_page_says_how_to_start_one(http: TestClient, scene: Scene) -> None:
    assert f"trainer run --environment {scene.environment}" in http.get("/runs").text


def test_runs_are_listed_with_revision_and_host(http: TestClient, scene: Scene) -> None:
    start(scene, 0.001, git={"revision": "ab" * 20, "changed": True}, machine={"host": "gpu-3"})
    page = http.get("/runs").text
    assert "ababababab+" in page
    assert "gpu-3" in page
    assert "Compare the two" not in page


def test_a_run_shows_its_settings_by_path(http: TestClient, scene: Scene) -> None:
    run = start(scene, 0.001, command=["python", "<train>.py"])
    page = http.get(f"/runs/{run.id}").text
    assert "<code>ppo.<wbr>learning_<wbr>rate</code>" in page
    assert "python &lt;train&gt;.py" in page
    player = scene.publish(1, run_id=run.id)
    assert f'href="/runs/{run.id}"' in http.get(f"/players/{player.id}").text


def test_the_difference_shows_both_values(http: TestClient, scene: Scene) -> None:
    first, second = start(scene, 0.125), start(scene, 0.25)
    assert "Compare the two" in http.get("/runs").text
    page = http.get(f"/runs/difference?first={first.id}&second={second.id}").text
    assert page.count("settings.<wbr>ppo.<wbr>learning_<wbr>rate") == 1
    assert "0.125" in page
    assert "0.25" in page
    same = http.get(f"/runs/difference?first={first.id}&second={first.id}").text
    assert "the same seed, settings and origin" in same


def test_unknown_run_is_a_404(http: TestClient, scene: Scene) -> None:
    assert http.get("/runs/999", headers={"accept": "text/html"}).status_code == 404
