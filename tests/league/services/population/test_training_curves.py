"""What learners report of themselves is kept over their steps: exactly at first, thinner with age, never twice."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from league_scene import ON_SQLITE, Scene
from refused import refused
from sqlalchemy import func, select

from league import wire
from league.db.engine import Database
from league.db.models import MetricPoint
from league.services.population import training_curves

VERDICT = wire.HealthVerdict(
    name="cycling", severity="warning", since_update=3, meaning="it loses", evidence="now 0.3", advice="publish more"
)


def beat(scene: Scene, step: int, metrics: dict[str, float | None], **more: Any) -> None:
    progress = wire.LearnerProgress(learner_id=scene.learner.id, step=step, metrics=metrics, **more)
    scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))


def test_every_report_is_a_point_of_the_curve(scene: Scene, time: Any) -> None:
    began = time.now
    beat(scene, 64, {"losses/approx_kl": 0.0125, "charts/SPS": 1500.0})
    time.advance(10)
    beat(scene, 128, {"losses/approx_kl": None, "charts/SPS": 1600.5, "charts/score": 0.5})
    told = scene.client.metrics(scene.learner.id)
    assert told.steps == [64, 128]
    assert [(at - began).total_seconds() for at in told.reported_at] == [0, 10]
    assert told.metrics == {
        "losses/approx_kl": [0.0125, None],
        "charts/SPS": [1500.0, 1600.5],
        "charts/score": [None, 0.5],
    }


def test_curves_return_only_newer_points_of_requested_metrics(scene: Scene) -> None:
    for step in (64, 128, 192):
        beat(scene, step, {"a": 1.0 * step, "b": 0.0})
    first = scene.client.metrics(scene.learner.id, names=["a"])
    assert first.metrics == {"a": [64.0, 128.0, 192.0]}
    assert scene.client.metrics(scene.learner.id, after=first.last).steps == []
    beat(scene, 256, {"a": 256.0})
    fresh = scene.client.metrics(scene.learner.id, names=["a"], after=first.last)
    assert (fresh.steps, fresh.metrics) == ([256], {"a": [256.0]})
    assert scene.client.metrics(scene.learner.id, after=fresh.last).last == fresh.last


def test_repeated_step_is_stored_as_one_point(scene: Scene) -> None:
    for value in (1.0, 2.0):
        beat(scene, 64, {"a": value})
    assert scene.client.metrics(scene.learner.id).metrics == {"a": [1.0]}


def test_resumed_run_extends_its_curve(scene: Scene) -> None:
    for step in (64, 128, 192, 128, 160):
        beat(scene, step, {"a": float(step)})
    assert scene.client.metrics(scene.learner.id).steps == [64, 128, 160, 192]


def test_old_points_thin_out_and_the_newest_all_stay(
    scene: Scene, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_curves, "DENSE", 4)
    for step in range(1, 41):
        beat(scene, step, {"a": float(step)})
    assert scene.client.metrics(scene.learner.id).steps == [16, 24, 28, 32, 34, 36, 37, 38, 39, 40]
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(MetricPoint)) == 10


@given(st.integers(1, 20_000))
def test_thinned_curve_is_dense_at_its_end_and_has_no_gaps(count: int) -> None:
    kept = dict.fromkeys(range(1, count + 1))
    for number in range(1, count + 1):
        kept.pop(training_curves.displaced_by(number), None)
    left = list(kept)
    assert left[0] <= 1 + 2 * count // training_curves.DENSE
    assert len(left) <= training_curves.DENSE * (
        1 + 0.5 * math.log2(max(1.0, count / training_curves.DENSE))
    ) + math.log2(count + 1)
    assert left[-training_curves.DENSE :] == list(range(max(1, count - training_curves.DENSE + 1), count + 1))
    for number, following in pairwise(left):
        assert following - number <= max(1, 2 * (count - number) // training_curves.DENSE)


def test_metrics_of_single_opponents_are_not_stored(scene: Scene) -> None:
    for step in range(3):
        beat(scene, step, {"a": 1.0, f"win_rate/main@{step}": 0.5, f"matches/main@{step}": 40.0})
    assert set(scene.client.metrics(scene.learner.id).metrics) == {"a"}
    assert scene.client.learners().items[0].metrics["win_rate/main@2"] == 0.5


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 1e300])
def test_a_value_that_cannot_be_drawn_is_a_gap(scene: Scene, value: float) -> None:
    beat(scene, 64, {"a": value, "b": 1.0})
    assert scene.client.metrics(scene.learner.id).metrics == {"a": [None], "b": [1.0]}


@ON_SQLITE
@pytest.mark.parametrize("metrics", [{"": 1.0}, {"x" * 129: 1.0}, {"a\x00b": 1.0}, {f"m{n}": 1.0 for n in range(513)}])
def test_names_and_their_number_are_checked(http: Any, scene: Scene, metrics: dict[str, float]) -> None:
    body = {"learners": [{"learner_id": scene.learner.id, "step": 1, "metrics": metrics}]}
    answer = http.post(f"/api/v1/workers/{scene.trainer.id}/heartbeat", json=body)
    assert answer.status_code == 422
    assert scene.client.learners().items[0].step is None


def test_verdicts_travel_in_words_and_end(scene: Scene) -> None:
    beat(scene, 64, {}, verdicts=[VERDICT])
    assert scene.client.learners().items[0].verdicts == [VERDICT]
    beat(scene, 128, {}, verdicts=[])
    assert scene.client.learners().items[0].verdicts == []


def test_trainer_without_health_report_has_no_verdicts(scene: Scene) -> None:
    beat(scene, 64, {"a": 1.0})
    assert scene.client.learners().items[0].verdicts is None


def test_curves_of_unknown_learner_are_rejected(scene: Scene) -> None:
    with refused("unknown-learner", 999):
        scene.client.metrics(999)
    with refused("invalid-request", "query.most"):
        scene.client.metrics(scene.learner.id, most=0)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60, unique=True).map(sorted), st.integers(1, 30))
def test_a_short_curve_spans_the_whole(steps: list[int], most: int) -> None:
    places = training_curves.downsample(steps, most)
    assert places == sorted(set(places))
    assert len(places) <= max(most, 1)
    assert places[-1] == len(steps) - 1
    if len(steps) <= most:
        assert len(places) == len(steps)


@pytest.mark.parametrize("last", [2**53 - 1, 2**62])
def test_a_short_curve_of_a_very_long_run_spans_the_whole(last: int) -> None:
    steps = [last * place // 9_999 for place in range(10_000)]
    places = training_curves.downsample(steps, 5_000)
    assert places == list(range(1, 10_000, 2))
