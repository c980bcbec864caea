"""Strongest cycle of three players."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from arena.evaluation.strongest_cycle import strongest_cycle
from arena.ratings.pair_posterior import log_odds


def win_rates(parameters):
    """(P, P) scores of players with a strength and positions in cyclic components."""
    parameters = np.array(parameters, dtype=float)
    row, column = np.indices((len(parameters), len(parameters))).reshape(2, -1)
    return expit(log_odds(parameters, row, column)).reshape(len(parameters), len(parameters))


def test_rock_paper_scissors_is_a_cycle_from_its_first_player():
    found = strongest_cycle([[0.5, 0.2, 0.9], [0.8, 0.5, 0.3], [0.1, 0.7, 0.5]])
    assert found.players == (0, 2, 1)
    assert found.win_rates == (0.9, 0.7, 0.8)


def test_ratings_alone_have_no_cycle():
    assert strongest_cycle(win_rates([[2.0], [0.5], [0.5], [-3.0], [1.0]])) is None


def test_weakest_win_decides_which_cycle_is_the_strongest():
    x = np.full((4, 4), 0.5)
    for one, other, rate in ((0, 1, 0.99), (1, 2, 0.99), (2, 0, 0.51), (1, 3, 0.7), (3, 0, 0.6)):
        x[one, other], x[other, one] = rate, 1.0 - rate
    assert strongest_cycle(x).players == (0, 1, 3)


def test_great_difference_of_strength_breaks_a_cycle_of_positions():
    corners = [[0.0, np.cos(angle), np.sin(angle)] for angle in 2 * np.pi * np.arange(3) / 3]
    assert strongest_cycle(win_rates(corners)).win_rates == pytest.approx([expit(np.sqrt(0.75))] * 3)
    corners[0][0] = 5.0
    assert strongest_cycle(win_rates(corners)) is None


@pytest.mark.parametrize("players", range(3))
def test_fewer_than_three_players_have_no_cycle(players):
    assert strongest_cycle(np.full((players, players), 0.5)) is None


def test_matrix_must_be_square():
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        strongest_cycle(np.full((2, 3), 0.5))


@given(st.integers(0, 2**32 - 1), st.integers(3, 9))
def test_found_cycle_is_that_of_a_search_over_all_triples(seed, players):
    x = win_rates(np.random.default_rng(seed).normal(size=(players, 5)))
    best = max(min(x[i, j], x[j, k], x[k, i]) for i, j, k in itertools.permutations(range(players), 3))
    found = strongest_cycle(x)
    assert (0.5 if found is None else min(found.win_rates)) == pytest.approx(max(best, 0.5))
