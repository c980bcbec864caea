"""Pairs and players whose scores differ from the predicted ones beyond chance."""

import numpy as np
import pytest
from scipy.stats import binomtest, combine_pvalues

from arena.evaluation import deviations
from arena.evaluation.deviations import deviating_pairs, deviating_players
from arena.ratings.expected_score import PairCounts


def counts(*rows):
    """Counts of (low, high, games, points)."""
    low, high, games, points = np.array(rows, dtype=float).T
    return PairCounts(low.astype(np.int64), high.astype(np.int64), games, points)


def round_robin(rng, players, games, chance):
    low, high = np.triu_indices(players, 1)
    return PairCounts(low, high, np.full(low.size, float(games)), rng.binomial(games, chance[low, high]).astype(float))


def test_pair_that_wins_99_percent_where_79_are_predicted_deviates():
    played = counts((0, 1, 180, 179), (0, 2, 180, 142))
    assert deviating_pairs(played, np.array([0.787, 0.787])).tolist() == [True, False]


def test_significant_differences_below_5_points_are_not_relevant():
    played = counts((0, 1, 100_000, 54_000), (0, 2, 100_000, 56_000))
    assert deviating_pairs(played, np.full(2, 0.5)).tolist() == [False, True]
    assert deviating_players(counts((0, 1, 100_000, 54_000)), np.array([0.5]), 2).tolist() == [False, False]


def test_few_games_prove_nothing():
    assert not deviating_pairs(counts((0, 1, 4, 4)), np.array([0.4])).any()


def test_more_comparisons_need_more_evidence():
    one = counts((0, 1, 20, 17))
    many = counts((0, 1, 20, 17), *((0, other, 20, 10) for other in range(2, 60)))
    assert deviating_pairs(one, np.full(1, 0.5)).all()
    assert not deviating_pairs(many, np.full(59, 0.5)).any()


@pytest.mark.parametrize(("games", "points", "chance"), [(20, 3, 0.5), (30, 30, 0.7), (12, 0, 0.2), (9, 9, 1.0)])
def test_p_value_is_twice_the_smaller_exact_tail(games, points, chance):
    tails = (binomtest(points, games, chance, alternative=side).pvalue for side in ("less", "greater"))
    found = deviations._p_values(counts((0, 1, games, points)), np.array([chance]))
    assert found == pytest.approx([min(2.0 * min(tails), 1.0)])


def test_players_p_value_combines_its_pairs_by_fisher():
    played, predicted = counts((0, 1, 30, 22), (0, 2, 30, 23)), np.array([0.5, 0.5])
    exact = combine_pvalues([2.0 * binomtest(won, 30, alternative="greater").pvalue for won in (22, 23)]).pvalue
    assert deviating_players(played, predicted, 3, significance=exact * 3 + 1e-9)[0]
    assert not deviating_players(played, predicted, 3, significance=exact - 1e-9).any()


def test_player_with_unlike_results_deviates_and_its_opponents_do_not():
    rng = np.random.default_rng(3)
    chance = np.full((20, 20), 0.5)
    chance[0, 1:] = np.where(np.arange(1, 20) % 2, 0.65, 0.35)  # an average score of 1/2
    played = round_robin(rng, 20, 400, chance)
    assert np.flatnonzero(deviating_players(played, np.full(played.low.size, 0.5), 20)).tolist() == [0]


def test_players_without_games_do_not_deviate():
    assert not deviating_players(PairCounts(*np.empty((2, 0), np.int64), *np.empty((2, 0))), np.empty(0), 3).any()


def test_false_alarms_are_rare_where_predictions_hold():
    rng = np.random.default_rng(5)
    chance = np.full((30, 30), 0.8)
    alarms = 0
    for _ in range(50):
        played = round_robin(rng, 30, 40, chance)
        predicted = np.full(played.low.size, 0.8)
        alarms += int(deviating_pairs(played, predicted).any() or deviating_players(played, predicted, 30).any())
    assert alarms <= 3
