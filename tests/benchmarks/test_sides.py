"""On simulated leagues whose sides are unlike, ratings say what players score over both, and sides what they are."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.sides import (
    MEAN,
    OVERALL,
    Outcome,
    Plan,
    inside,
    inside_of_sides,
    misforetold,
    order,
    population,
    simulate,
)

PLAN = Plan(snapshots=8, step=60.0, advantage=400.0, talent=50.0, uneven=0.0, periods=2)


@pytest.fixture(scope="module")
def even() -> list[Outcome]:
    return [simulate(PLAN, seed) for seed in range(2)]


@pytest.fixture(scope="module")
def uneven() -> list[Outcome]:
    return [simulate(replace(PLAN, uneven=3.0), seed) for seed in range(2)]


def test_where_sides_are_swapped_evenly_overall_ratings_foretell_scores_better_than_means_of_sides(
    even: list[Outcome],
) -> None:
    for outcome in even:
        assert misforetold(outcome, OVERALL) < misforetold(outcome, MEAN)
        assert order(outcome, OVERALL) > order(outcome, MEAN) - 0.1


def test_where_some_have_one_side_more_often_means_of_sides_have_the_better_order(uneven: list[Outcome]) -> None:
    for outcome in uneven:
        assert order(outcome, MEAN) > order(outcome, OVERALL)


def test_bands_of_sides_hold_their_truth(even: list[Outcome], uneven: list[Outcome]) -> None:
    assert np.mean([inside_of_sides(outcome) for outcome in even + uneven]) > 0.85
    assert np.mean([inside(one.overall[OVERALL], one.truth.rating) for one in even]) > 0.85


def test_who_is_worth_more_scores_more_over_both_sides() -> None:
    truth = population(PLAN, np.random.default_rng(3))
    assert truth.score + truth.score.T == pytest.approx(np.ones_like(truth.score))
    assert np.array_equal(np.argsort(truth.rating), np.argsort(truth.score.sum(axis=1)))
    assert (truth.home - truth.away).mean() > 100.0
