"""On simulated leagues, with the league's own pairing, ratings mean what they say; Glicko-2 alone does not."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.calibration import BAND, Outcome, Plan, simulate
from league.config import Settings
from league.services.rating import Rule

PLAN = Plan(snapshots=25, step=40.0, spread=60.0, periods=3, matches=60)
FITTED = Rule.of(Settings())
ALONE = replace(FITTED, refit=replace(FITTED.refit, enabled=False))


@pytest.fixture(scope="module")
def fitted() -> list[Outcome]:
    return [simulate(PLAN, FITTED, np.random.default_rng(seed)) for seed in range(8)]


@pytest.fixture(scope="module")
def alone() -> list[Outcome]:
    return [simulate(PLAN, ALONE, np.random.default_rng(seed)) for seed in range(8)]


def inside(outcomes: list[Outcome]) -> float:
    return float(np.mean([np.abs(one.rating - one.truth) < BAND * one.deviation for one in outcomes]))


def bias_of_newest(outcomes: list[Outcome]) -> float:
    return float(np.mean([one.rating[-1] - one.truth[-1] for one in outcomes]))


def test_bands_hold_the_truth_where_the_whole_history_is_fitted(fitted: list[Outcome], alone: list[Outcome]) -> None:
    assert 0.9 <= inside(fitted) <= 1.0
    assert inside(alone) < 0.5


def test_the_newest_snapshot_is_not_left_behind(fitted: list[Outcome], alone: list[Outcome]) -> None:
    assert abs(bias_of_newest(fitted)) < 80.0
    assert bias_of_newest(alone) < -100.0
