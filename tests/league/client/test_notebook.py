"""The notebook of plots runs on a league."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from league_history import play_periods
from league_scene import ON_SQLITE, Scene
from live_server import listening
from starlette.testclient import TestClient

from league import wire

NOTEBOOK = Path(__file__).parents[3] / "examples" / "league.ipynb"
LARGEST_BYTES = 300_000


@pytest.fixture
def plots() -> Iterator[Any]:
    """Matplotlib without windows."""
    pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with matplotlib.rc_context():
        yield plt
        plt.close("all")


@ON_SQLITE
def test_notebook_plots_a_league(
    scene: Scene, time: Any, http: TestClient, plots: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_periods(scene, time)
    progress = wire.LearnerProgress(learner_id=scene.learner.id, step=11, metrics={"loss": 0.5})
    scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))
    with listening(http.app) as url:
        monkeypatch.setenv("LEAGUE_URL", url)
        namespace: dict[str, Any] = {}
        for cell in json.loads(NOTEBOOK.read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), namespace)
        namespace["league"].close()
    assert set(namespace["standings"]["name"]) >= {"main", "main@10", "random"}
    assert len(plots.get_fignums()) >= 4


def test_notebook_is_small() -> None:
    assert NOTEBOOK.stat().st_size < LARGEST_BYTES
