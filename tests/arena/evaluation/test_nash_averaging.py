import json
from pathlib import Path

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from arena.evaluation.nash_averaging import max_entropy_nash

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "openspiel_equilibria.json").read_text())["games"]
ROCK_PAPER_SCISSORS = np.array([[0.5, 0.0, 1.0], [1.0, 0.5, 0.0], [0.0, 1.0, 0.5]])


def as_win_rates(payoff):
    """Scale a zero-sum game's payoffs to win rates; mixtures and ranks stay what they are."""
    payoff = np.array(payoff)
    return 0.5 + 0.5 * payoff / np.abs(payoff).max()


def league(players, *, cyclic, seed):
    rng = np.random.default_rng(seed)
    strength, turn = rng.normal(0.0, 1.0, players), rng.normal(0.0, 1.0, (players, players))
    odds = (1.0 - cyclic) * (strength[:, None] - strength) + cyclic * (turn - turn.T)
    return 1.0 / (1.0 + np.exp(-odds))


def entropy(mixture):
    likely = mixture[mixture > 0.0]
    return -float(np.sum(likely * np.log(likely)))


@pytest.mark.parametrize("game", VECTORS, ids=lambda game: game["name"])
def test_mixtures_are_openspiels(game):
    """Its own tests of Nash averaging ask for five digits, to which its solver is set."""
    win_rate = as_win_rates(game["payoff"])
    assert max_entropy_nash(win_rate) == pytest.approx(game["nash_averaging"], abs=1.5e-5)


def test_mixtures_of_small_games_are_those_of_the_textbook():
    assert max_entropy_nash(ROCK_PAPER_SCISSORS) == pytest.approx([1 / 3] * 3)
    biased = as_win_rates([[0, -25, 50], [25, 0, -5], [-50, 5, 0]])
    assert max_entropy_nash(biased) == pytest.approx([1 / 16, 10 / 16, 5 / 16], abs=1e-6)
    assert max_entropy_nash([[0.5]]).tolist() == [1.0]
    assert max_entropy_nash(np.zeros((0, 0))).shape == (0,)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 25), st.floats(0.0, 1.0), st.integers(0, 2**32 - 1))
def test_no_player_beats_the_nash_mixture(players, cyclic, seed):
    win_rate = league(players, cyclic=cyclic, seed=seed)
    mixture = max_entropy_nash(win_rate)
    assert mixture.sum() == pytest.approx(1.0)
    assert (mixture >= 0.0).all()
    assert (win_rate @ mixture).max() <= 0.5 + 1e-7


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=3, max_size=6), st.integers(0, 2**32 - 1))
def test_copies_of_a_player_share_its_nash_weight_equally(copies, seed):
    players = len(copies)
    win_rate = league(players, cyclic=0.9, seed=seed)
    whose = np.repeat(np.arange(players), copies)
    mixture = max_entropy_nash(win_rate[np.ix_(whose, whose)])
    alone = max_entropy_nash(win_rate)
    assert mixture == pytest.approx((alone / np.array(copies))[whose], abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=2, max_size=25),
    st.integers(-14, -4),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_near_copies_have_a_mixture_too(whose, exponent, rounded, seed):
    """Differences from 1e-14 to 1e-4, below and above what solvers tell apart, and ties in plenty."""
    rng = np.random.default_rng(seed)
    odds = np.log(1.0 / league(6, cyclic=0.6, seed=seed) - 1.0)[np.ix_(whose, whose)]
    noise = rng.normal(0.0, 10.0**exponent, odds.shape)
    win_rate = 1.0 / (1.0 + np.exp(odds + noise - noise.T))
    if rounded:
        win_rate = np.round(win_rate, 1)
    win_rate = 0.5 * (win_rate + 1.0 - win_rate.T)
    mixture = max_entropy_nash(win_rate)
    assert mixture.sum() == pytest.approx(1.0)
    assert (win_rate @ mixture).max() <= 0.5 + 1e-5


def test_of_several_equilibria_the_most_even_one_is_taken():
    """Two cycles of three, even with each other: any mixture of the two cycles is an equilibrium."""
    win_rate = np.full((6, 6), 0.5)
    win_rate[:3, :3] = win_rate[3:, 3:] = ROCK_PAPER_SCISSORS
    assert max_entropy_nash(win_rate) == pytest.approx([1 / 6] * 6, abs=1e-6)


def test_solver_fallback_is_an_equilibrium_of_its_support(monkeypatch):
    settings = clarabel.DefaultSettings
    monkeypatch.setattr(clarabel, "DefaultSettings", lambda: hasty(settings()))
    assert max_entropy_nash(ROCK_PAPER_SCISSORS) == pytest.approx([1 / 3] * 3)
    win_rate = league(12, cyclic=0.8, seed=3)
    mixture = max_entropy_nash(win_rate)
    assert mixture.sum() == pytest.approx(1.0)
    assert (win_rate @ mixture).max() <= 0.5 + 1e-9


def hasty(settings):
    settings.max_iter = 1
    return settings


def test_beatable_mixture_is_never_chosen():
    """The third player is even with the first and beaten by nobody but the fourth, whom the second beats."""
    win_rate = 0.5 + 0.1 * np.array([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, -3], [0, -1, 3, 0]])
    mixture = max_entropy_nash(win_rate)
    assert (win_rate @ mixture).max() <= 0.5 + 1e-7
    assert mixture[3] == pytest.approx(0.0, abs=1e-6)
    # maximum of the entropy over p4 = 0 and 3 p3 <= p2, by a search of one's own
    grid = [
        np.array([1.0 - p2 - p3, p2, p3])
        for p3 in np.linspace(0.0, 0.25, 101)
        for p2 in np.linspace(3 * p3, 1.0 - p3, 101)
    ]
    best = max(grid, key=entropy)
    assert entropy(mixture) >= entropy(best) - 1e-6
    assert mixture[:3] == pytest.approx(best, abs=0.02)


def test_bad_payoffs_are_refused_by_name():
    with refused(ValueError, "win_rate", "(1, 2)"):
        max_entropy_nash([[0.5, 0.5]])
    with refused(ValueError, "win_rate[0, 1]", "nan"):
        max_entropy_nash([[0.5, np.nan], [0.5, 0.5]])
    with refused(ValueError, "win_rate[0, 1]", 0.7, "[1, 0]"):
        max_entropy_nash([[0.5, 0.7], [0.7, 0.5]])
