"""Ratings of a round robin: the equation they solve, what is left uncertain, and what they come to at both ends."""

import numpy as np
import pytest
from scipy.special import expit

from arena.ratings import expected_score as round_robin
from arena.ratings.covariance import Covariance
from arena.ratings.expected_score import PairCounts

HOLD = 1e-6


def rate(
    theta: np.ndarray, covariance: np.ndarray, free: np.ndarray, meetings: PairCounts, correlation: float, hold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ratings and their covariance, from a covariance that is a matrix."""
    rating, found = round_robin.round_robin_ratings(
        theta, Covariance.of_matrix(covariance), free, meetings, correlation, hold
    )
    assert found.matrix is not None
    return rating, found.matrix


def everybody(players: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(players, 1)


def meetings_of(rng: np.random.Generator, players: int, count: int, games: int) -> PairCounts:
    low, high = (
        column[chosen]
        for chosen in [rng.choice(players * (players - 1) // 2, count, replace=False)]
        for column in everybody(players)
    )
    return PairCounts(low, high, np.full(count, float(games)), rng.integers(0, games + 1, count).astype(np.float64))


def covariance_of(rng: np.random.Generator, size: int) -> np.ndarray:
    root = rng.normal(size=(size, size))
    return 0.1 * root @ root.T + 0.01 * np.eye(size)


def test_ratings_predict_the_scores_of_a_round_robin() -> None:
    rng = np.random.default_rng(0)
    theta, free = rng.normal(0.0, 2.0, 12), np.arange(1, 12)
    met = meetings_of(rng, 12, 30, 16)
    rating, _ = rate(theta, covariance_of(rng, 11), free, met, 0.3, HOLD)
    chance = expit(theta[:, None] - theta)
    share = 16 * 0.3 / (1 + 15 * 0.3)
    for low, high, points in zip(met.low, met.high, met.points, strict=True):
        told = share * (points / 16 - chance[low, high])
        chance[low, high] += told
        chance[high, low] -= told
    foretold = expit(rating[:, None] - rating)
    assert foretold.sum(axis=1)[free] == pytest.approx(chance.sum(axis=1)[free], abs=1e-4)
    assert rating[0] == theta[0]


def test_uncertainty_vanishes_with_unlimited_games() -> None:
    rng = np.random.default_rng(1)
    low, high = everybody(8)
    theta, chance = rng.normal(size=8), rng.uniform(0.1, 0.9, low.size)
    met = PairCounts(low, high, np.full(low.size, 1e9), 1e9 * chance)
    rating, covariance = rate(theta, covariance_of(rng, 7), np.arange(1, 8), met, 0.2, HOLD)
    other, _ = rate(theta + rng.normal(size=8) * (np.arange(8) > 0), covariance, np.arange(1, 8), met, 0.2, HOLD)
    assert np.abs(covariance).max() < 1e-6
    assert rating == pytest.approx(other, abs=1e-4), "strengths no longer matter"


def test_little_correlation_leaves_strengths_and_covariance_as_they_are() -> None:
    rng = np.random.default_rng(2)
    theta, before = rng.normal(size=9), covariance_of(rng, 8)
    rating, covariance = rate(theta, before, np.arange(1, 9), meetings_of(rng, 9, 20, 4), 1e-9, HOLD)
    assert rating == pytest.approx(theta, abs=1e-6)
    assert covariance == pytest.approx(before, abs=1e-5)


def test_the_covariance_is_that_of_the_posterior_of_strengths_and_pairs_together() -> None:
    """The linear model written out: strengths and a part of every pair, conditioned on the scores of those that met."""
    rng = np.random.default_rng(3)
    players, rho, games, free = 6, 0.3, 5.0, np.arange(1, 6)
    theta, prior = rng.normal(size=players), covariance_of(rng, 5)
    low, high = everybody(players)
    lead = (np.eye(players)[low] - np.eye(players)[high])[:, free]
    chance = expit(theta[low] - theta[high])
    v, seen = chance * (1.0 - chance), np.arange(0, low.size, 2)
    both = np.block([[prior, np.zeros((5, low.size))], [np.zeros((low.size, 5)), np.diag(rho * v)]])
    sees = np.hstack([v[:, None] * lead, np.eye(low.size)])[seen]
    noise = np.diag(v[seen] * (1.0 - rho) / games)
    gain = both @ sees.T @ np.linalg.inv(sees @ both @ sees.T + noise)
    after = both - gain @ sees @ both
    rated = np.hstack([np.eye(5), np.linalg.solve(lead.T @ (v[:, None] * lead) + HOLD * np.eye(5), lead.T)])

    met = PairCounts(low[seen], high[seen], np.full(seen.size, games), games * chance[seen])
    rating, covariance = rate(theta, after[:5, :5], free, met, rho, HOLD)
    assert rating == pytest.approx(theta, abs=1e-9), "scores are as strengths foretell them"
    assert covariance == pytest.approx(rated @ after @ rated.T, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("far", [10.0, 40.0])
def test_outlying_player_keeps_a_finite_rating(far: float) -> None:
    rng = np.random.default_rng(4)
    theta = np.append(rng.normal(size=5), far)
    met = PairCounts(np.array([0, 1]), np.array([5, 5]), np.full(2, 16.0), np.array([0.0, 2.0]))
    rating, covariance = rate(theta, np.eye(6), np.arange(6), met, 0.5, 0.0075)
    assert np.isfinite(rating).all()
    assert np.isfinite(covariance).all()
    assert rating[5] < far
    assert np.linalg.eigvalsh(covariance).min() > 0.0


@pytest.mark.parametrize(("spread", "anchors"), [(1.0, 0), (6.0, 3)])
def test_many_players_are_rated_as_few_are(monkeypatch: pytest.MonkeyPatch, spread: float, anchors: int) -> None:
    rng = np.random.default_rng(5)
    players, free = 300, np.arange(anchors, 300)
    theta, before = rng.normal(0.0, spread, players), covariance_of(rng, free.size) / free.size
    met = meetings_of(rng, players, 3_000, 16)
    expected, apart = rate(theta, before.copy(), free, met, 0.3, 0.0075)
    monkeypatch.setattr(round_robin, "_DENSE_MAX", 0)
    monkeypatch.setattr(round_robin, "_DENSE_PER_POLYNOMIAL", 1)
    monkeypatch.setattr(round_robin, "_rate_few", None)
    rating, covariance = rate(theta, before.copy(), free, met, 0.3, 0.0075)
    assert rating == pytest.approx(expected, abs=1e-8)
    assert covariance == pytest.approx(apart, rel=1e-7, abs=1e-9)


def test_of_many_players_one_far_beyond_all_others_is_rated_by_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    theta, met = np.append(rng.normal(size=40), 1e5), meetings_of(rng, 40, 100, 16)
    expected = rate(theta, np.eye(40), np.arange(40), met, 0.3, 0.0075)
    monkeypatch.setattr(round_robin, "_DENSE_MAX", 0)
    monkeypatch.setattr(round_robin, "_rate_many", None)
    rating, covariance = rate(theta, np.eye(40), np.arange(40), met, 0.3, 0.0075)
    assert np.array_equal(rating, expected[0])
    assert np.array_equal(covariance, expected[1])
