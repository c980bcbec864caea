"""On simulated leagues, with the league's own pairing, ratings mean what they say; Glicko-2 alone does not."""

from dataclasses import replace

import numpy as np
import pytest

from arena.evaluation.payoff import cyclic_share
from benchmarks.calibration import BAND, RULES, Outcome, Plan, population, rated_by_pair_model, simulate

PLAN = Plan(snapshots=25, step=40.0, spread=60.0, periods=3, matches=60, budget=1, intransitive=0.0)
CIRCLES = replace(PLAN, snapshots=14, budget=5, intransitive=0.3)


@pytest.fixture(scope="module")
def fitted() -> list[Outcome]:
    return [simulate(PLAN, RULES["whole history"], np.random.default_rng(seed)) for seed in range(8)]


@pytest.fixture(scope="module")
def alone() -> list[Outcome]:
    return [simulate(PLAN, RULES["Glicko-2 alone"], np.random.default_rng(seed)) for seed in range(8)]


def inside(outcomes: list[Outcome]) -> float:
    return float(np.mean([np.abs(one.rating - one.truth) < BAND * one.deviation for one in outcomes]))


def bias_of_newest(outcomes: list[Outcome]) -> float:
    return float(np.mean([one.rating[-1] - one.truth[-1] for one in outcomes]))


@pytest.mark.integration
def test_bands_hold_the_truth_where_the_whole_history_is_fitted(fitted: list[Outcome], alone: list[Outcome]) -> None:
    assert 0.9 <= inside(fitted) <= 1.0
    assert inside(alone) < 0.5


@pytest.mark.integration
def test_the_newest_snapshot_is_not_left_behind(fitted: list[Outcome], alone: list[Outcome]) -> None:
    assert abs(bias_of_newest(fitted)) < 80.0
    assert bias_of_newest(alone) < -100.0


@pytest.mark.integration
def test_provisional_players_first_means_a_shorter_wait_for_a_promotion() -> None:
    waits = [
        np.median(simulate(replace(CIRCLES, max_error=widest), RULES["whole history"], np.random.default_rng(0)).wait)
        for widest in (37.5, np.inf)
    ]
    assert waits[0] < 0.75 * waits[1]


@pytest.mark.integration
def test_the_pair_model_rates_better_where_positions_in_a_cycle_drift() -> None:
    outcome = simulate(replace(PLAN, intransitive=0.4, drift=0.2), RULES["whole history"], np.random.default_rng(1))
    errors = [np.square(each.rating - each.truth).mean() for each in (rated_by_pair_model(outcome), outcome)]
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.integration
def test_intervals_of_the_pair_model_hold_the_truth_where_positions_in_a_cycle_drift_slowly() -> None:
    plan = replace(PLAN, intransitive=0.3, drift=0.1)
    rated = [
        rated_by_pair_model(simulate(plan, RULES["whole history"], np.random.default_rng(seed))) for seed in range(3)
    ]
    assert 0.9 <= inside(rated) <= 1.0
    assert all(0.0 < each.log_loss < 0.4 for each in rated)


@pytest.mark.integration
def test_bands_hold_the_truth_where_results_go_in_circles_too() -> None:
    learned, taken_alike = (
        [simulate(CIRCLES, RULES[name], np.random.default_rng(seed)) for seed in range(8)]
        for name in ("whole history", "without correlation")
    )
    assert inside(learned) > 0.85
    assert inside(taken_alike) < 0.75


def test_made_up_leagues_have_the_intransitive_share_that_was_asked_for() -> None:
    plan = replace(PLAN, snapshots=300, step=0.0, spread=5.0)
    for share in (0.0, 0.3):
        truth = population(replace(plan, intransitive=share), np.random.default_rng(1))
        chance = 1.0 / (1.0 + np.exp(-truth.log_odds))
        assert cyclic_share(chance, np.ones_like(chance) - np.eye(len(chance))) == pytest.approx(share, abs=0.02)
        assert truth.rating[0] == 1500.0


def test_positions_that_drift_are_like_those_of_the_parent_with_the_share_that_was_asked_for() -> None:
    plan = replace(PLAN, snapshots=300, step=0.0, spread=5.0, intransitive=0.3, drift=0.1)
    truth = population(plan, np.random.default_rng(1))
    chance = 1.0 / (1.0 + np.exp(-truth.log_odds))
    assert cyclic_share(chance, np.ones_like(chance) - np.eye(len(chance))) == pytest.approx(0.3, abs=0.1)
    own = truth.log_odds - (truth.log_odds.mean(axis=1)[:, None] - truth.log_odds.mean(axis=1))
    neighbours, strangers = (np.corrcoef(own[1:-gap].ravel(), own[1 + gap :].ravel())[0, 1] for gap in (1, 50))
    assert neighbours == pytest.approx(0.9, abs=0.05)
    assert strangers == pytest.approx(0.0, abs=0.2)


def test_the_truth_is_the_strength_where_there_are_no_circles() -> None:
    truth = population(PLAN, np.random.default_rng(2))
    assert (truth.rating - truth.rating[:, None]) / 173.7178 == pytest.approx(-truth.log_odds, abs=1e-3)
