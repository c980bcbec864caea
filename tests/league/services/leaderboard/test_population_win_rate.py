"""Win rates against the current population, from predicted scores."""

from functools import partial

import numpy as np
import pytest

from arena.ratings.glicko2 import Ratings, expected_score
from league.services.leaderboard.population_win_rate import OPPONENTS_MAX, population_win_rates

CHANCE = np.array([[0.5, 0.8, 0.3], [0.2, 0.5, 0.9], [0.7, 0.1, 0.5]])


def test_win_rate_is_the_mean_predicted_score_without_the_player_itself() -> None:
    rates = population_win_rates(lambda one, other: CHANCE[one, other], 3, np.arange(3))
    assert rates == pytest.approx([0.55, 0.55, 0.4])


def test_players_outside_of_the_population_do_not_count_as_opponents() -> None:
    rates = population_win_rates(lambda one, other: CHANCE[one, other], 3, np.array([1, 2]))
    assert rates == pytest.approx([0.55, 0.9, 0.1])


def test_a_population_of_one_has_no_win_rate_for_its_member() -> None:
    rates = population_win_rates(lambda one, other: CHANCE[one, other], 3, np.array([1]))
    assert rates == [0.8, None, 0.1]


def test_no_opponents_give_no_win_rates() -> None:
    assert population_win_rates(lambda one, other: CHANCE[one, other], 3, np.array([], np.int64)) == [None] * 3


def test_a_part_of_a_large_population_represents_it_within_half_a_point() -> None:
    rng = np.random.default_rng(0)
    rating = np.sort(rng.normal(1500.0, 300.0, 5 * OPPONENTS_MAX))[::-1]
    predict = partial(expected_score, Ratings(rating, np.full(rating.size, 50.0), np.zeros(rating.size)))
    all_players = np.arange(rating.size)
    chance = predict(np.repeat(all_players, rating.size), np.tile(all_players, rating.size))
    exact = (chance.reshape(rating.size, rating.size).sum(axis=1) - 0.5) / (rating.size - 1)
    rates = population_win_rates(predict, rating.size, all_players)
    assert np.array(rates, dtype=np.float64) == pytest.approx(exact, abs=0.005)
