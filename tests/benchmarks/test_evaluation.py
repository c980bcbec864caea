import argparse

import numpy as np
import pytest
from scipy.special import expit

from arena.evaluation.payoff import cyclic_share
from benchmarks.evaluation import PAIRINGS, fewest_games, games_needed, population


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_made_up_players_have_the_intransitive_share_that_was_asked_for(share):
    truth = population(40, share, seed=1)
    assert cyclic_share(expit(truth.log_odds), np.ones((40, 40)) - np.eye(40)) == pytest.approx(share, abs=0.01)
    assert truth.log_odds == pytest.approx(-truth.log_odds.T)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_every_pairing_finds_the_order_of_a_few_players(pairing):
    arguments = argparse.Namespace(batch=20, games=2000, goal=0.9, budget=1, once=False)
    needed = games_needed(population(8, 0.0, seed=0), PAIRINGS[pairing], 0, arguments)
    assert 20 <= needed <= 2000
    assert needed % 20 == 0


@pytest.mark.parametrize(("budget", "once", "batch", "at_once"), [(7, False, 1, 14), (1, True, 13, 13)])
def test_pairs_play_their_budget_on_both_sides_or_one_game(budget, once, batch, at_once):
    arguments = argparse.Namespace(batch=batch, games=2000, goal=0.9, budget=budget, once=once)
    needed = games_needed(population(8, 0.0, seed=0), PAIRINGS["Thompson, strangers first"], 0, arguments)
    assert needed % at_once == 0


def test_the_fewest_games_are_those_of_a_binomial_without_circles_and_more_with_them():
    """Half of the variance is gone when games tell as much as was known before; even games tell a quarter each."""
    arguments = argparse.Namespace(players=101, goal=0.0)
    assert fewest_games(arguments, 0.0) == pytest.approx(0.0, abs=1e-9)
    arguments.goal = 6.0 / np.pi * np.arcsin(np.sqrt(0.5) / 2.0)
    assert fewest_games(arguments, 0.0) == pytest.approx((173.7178 / 300.0) ** 2 * 100 / (2 * 0.25), rel=1e-4)
    bounds = [fewest_games(arguments, share) for share in (0.0, 0.15, 0.3)]
    assert bounds == sorted(bounds)
    assert bounds[2] > 2.0 * bounds[0]
