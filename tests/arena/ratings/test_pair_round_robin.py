"""Ratings of a round robin that a pair model predicts."""

import numpy as np
import pytest
from scipy.special import expit, logit

from arena.ratings import pair_model
from arena.ratings.bradley_terry import NO_PARENT
from arena.ratings.expected_score import ratings_for_scores
from arena.ratings.glicko2 import Results
from arena.ratings.pair_model import PairModel, Priors
from arena.ratings.pair_round_robin import round_robin

PLAYERS = 12
ANCHOR = np.arange(PLAYERS) == 0
PAIRS = np.triu_indices(PLAYERS, 1)


def fitted(log_odds: np.ndarray, games: int, components: int) -> PairModel:
    """Fit the expected results of all pairs, given the (P, P) log-odds."""
    results = Results(*PAIRS, expit(log_odds[PAIRS]), np.full(PAIRS[0].size, games))
    priors = Priors(np.full(PLAYERS, 1500.0), ANCHOR, np.full(PLAYERS, NO_PARENT))
    return pair_model.fit(results, priors, components=components)


def test_ratings_are_recovered_from_scores() -> None:
    rating = np.linspace(-2.0, 2.0, PLAYERS)
    score = expit(rating[:, None] - rating).sum(axis=1)
    start = np.where(ANCHOR, rating, 0.0)
    np.testing.assert_allclose(ratings_for_scores(start, score, np.arange(1, PLAYERS)), rating, atol=1e-3)


def test_without_cycles_ratings_are_those_of_the_model() -> None:
    rating = np.linspace(0.0, 2.0, PLAYERS)
    model = fitted(rating[:, None] - rating, 400, 0)
    found = round_robin(model, ANCHOR)
    np.testing.assert_allclose(found.rating, model.rating, atol=5.0)
    assert found.deviation[0] == 0.0
    assert (found.deviation[1:] < 15.0).all()


def test_a_cycle_of_equals_leaves_ratings_equal() -> None:
    angle = 2.0 * np.pi * np.arange(PLAYERS) / PLAYERS
    model = fitted(2.0 * np.sin(angle[:, None] - angle), 400, 1)
    np.testing.assert_allclose(round_robin(model, ANCHOR).rating, 1500.0, atol=25.0)


def test_draws_scatter_as_the_intervals_claim() -> None:
    rng = np.random.default_rng(2)
    model = fitted(rng.normal(0.0, 1.0, (PLAYERS, PLAYERS)), 20, 1)
    assert model.effect_variance > 0.1
    drawn = logit(np.array(list(model.draw_scores(*PAIRS, 400))))
    mean, variance = model.log_odds(*PAIRS)
    np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(variance), rtol=0.25)
    assert np.abs(drawn.mean(axis=0) - mean).mean() < 0.1


@pytest.mark.parametrize("draws", [2, 5])
def test_the_same_model_gives_the_same_bits(draws: int) -> None:
    model = fitted(np.zeros((PLAYERS, PLAYERS)), 10, 1)
    one, other = (round_robin(model, ANCHOR, draws) for _ in range(2))
    assert one.rating.tobytes() == other.rating.tobytes()
    assert one.rating[0] == pytest.approx(1500.0)
