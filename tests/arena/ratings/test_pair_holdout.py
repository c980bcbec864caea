"""Check of a pair model by held-out games."""

import numpy as np
import pytest
from scipy.special import expit

from arena.ratings import pair_holdout, pair_model
from arena.ratings.bradley_terry import NO_PARENT
from arena.ratings.expected_score import PairCounts
from arena.ratings.glicko2 import Results
from arena.ratings.pair_holdout import predict_held_out, z_scores
from arena.ratings.pair_model import Priors

PLAYERS = 30


def test_z_is_1_if_the_predictions_are_as_uncertain_as_they_claim() -> None:
    rng = np.random.default_rng(3)
    effect = np.triu(rng.normal(0.0, 1.0, (PLAYERS, PLAYERS)), 1)
    rating = rng.normal(0.0, 1.0, PLAYERS)
    home, away = np.triu_indices(PLAYERS, 1)
    games = rng.integers(10, 80, home.size)
    chance = expit(rating[home] - rating[away] + effect[home, away])
    results = Results(home, away, rng.binomial(games, chance) / games, games)
    priors = Priors(np.full(PLAYERS, 1500.0), np.arange(PLAYERS) == 0, np.full(PLAYERS, NO_PARENT))
    held_out = predict_held_out(pair_model.fit(results, priors, components=0), priors, 40)
    assert held_out.enough.size == (games >= 40).sum()
    assert np.sqrt(np.square(held_out.z).mean()) == pytest.approx(1.0, abs=0.15)


def test_z_counts_standard_errors_of_score_and_prediction() -> None:
    pairs = PairCounts(np.array([0]), np.array([1]), np.array([100.0]), np.array([60.0]))
    certain, uncertain = np.zeros(1), np.array([0.0075])
    assert z_scores(pairs, np.array([0.5]), certain) == pytest.approx(0.1 / 0.05)
    assert z_scores(pairs, np.array([0.5]), uncertain) == pytest.approx(0.1 / np.sqrt(0.2425 / 100 + 0.0075))


def test_a_split_keeps_all_games_of_a_pair() -> None:
    pairs = PairCounts(
        np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([1.0, 10.0, 50.0]), np.array([0.5, 10.0, 20.0])
    )
    train, test, total = pair_holdout._split(pairs)
    np.testing.assert_array_equal(test.games, [3.0, 15.0])  # a single game is not held out
    np.testing.assert_array_equal(total, [10.0, 50.0])
    np.testing.assert_array_equal(train.games[1:] + test.games, [10.0, 50.0])
    np.testing.assert_array_equal(train.points[1:] + test.points, [10.0, 20.0])
