import argparse

import numpy as np
import pytest
from scipy.special import expit

from arena.payoff import cyclic_share
from benchmarks.evaluation import PAIRINGS, games_needed, population


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_made_up_players_have_the_intransitive_share_that_was_asked_for(share):
    truth = population(40, share, seed=1)
    assert cyclic_share(expit(truth.log_odds), np.ones((40, 40)) - np.eye(40)) == pytest.approx(share, abs=0.01)
    assert truth.log_odds == pytest.approx(-truth.log_odds.T)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_every_pairing_finds_the_order_of_a_few_players(pairing):
    arguments = argparse.Namespace(batch=20, games=2000, goal=0.9)
    needed = games_needed(population(8, 0.0, seed=0), PAIRINGS[pairing], 0, arguments)
    assert 20 <= needed <= 2000
    assert needed % 20 == 0
