"""Predictions of open gates: the pair model forecasts score and length, and the matches alone decide."""

from typing import Any

import pytest
from gate_scene import Two, judged, open_gate, play
from league_scene import Scene
from pair_fits import store_fit

from league.db.engine import Database


@pytest.fixture
def two(scene: Scene) -> Two:
    return scene.publish(1), scene.publish(2)


def test_open_gate_has_the_score_that_the_pair_model_predicts(scene: Scene, two: Two, database: Database) -> None:
    """Both have the same rating, and the first has an answer to the second."""
    store_fit(database, {two[0].id: [0.0, 3.0, 0.0], two[1].id: [0.0, 0.0, 1.0]})
    opened = open_gate(scene, two)
    assert opened.predicted_score == pytest.approx(0.9526, abs=1e-4)
    assert opened.expected_games is not None
    assert 20 <= opened.expected_games <= 40
    assert scene.client.gate(opened.id) == opened
    assert scene.client.gates().items == [opened]


def test_even_prediction_means_a_longer_gate(scene: Scene, two: Two) -> None:
    opened = open_gate(scene, two)
    assert opened.predicted_score == pytest.approx(0.5)
    assert opened.expected_games is not None
    assert opened.expected_games > 60


def test_prediction_never_decides(scene: Scene, two: Two, database: Database, time: Any) -> None:
    """The candidate is predicted to win, and loses."""
    store_fit(database, {two[0].id: [0.0, 3.0, 0.0], two[1].id: [0.0, 0.0, 1.0]})
    open_gate(scene, two)
    play(scene, two[0], [0.0] * 30)
    (closed,) = judged(scene, database, time)
    assert (closed.state, closed.predicted_score, closed.expected_games) == ("rejected", None, None)
