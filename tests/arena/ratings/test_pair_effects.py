"""Random effects of pairs: posterior against numerical integration, and their learned variance."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit

from arena.ratings.expected_score import PairCounts
from arena.ratings.pair_effects import effect_modes, effect_posterior, learned_variance, mean_score, score_moments


def counts(games: list[float], points: list[float]) -> PairCounts:
    index = np.arange(len(games))
    return PairCounts(index, index + len(games), np.array(games), np.array(points))


@pytest.mark.parametrize(
    ("games", "points", "lead"), [(4, 3.5, 0.0), (30, 2.0, -1.0), (500, 490.0, 0.5), (2, 2.0, 1.0)]
)
def test_posterior_agrees_with_numerical_integration(games: float, points: float, lead: float) -> None:
    def density(effect: float) -> float:
        odds = lead + effect
        likelihood = (points - games) * odds - games * np.logaddexp(0.0, -odds)
        return float(np.exp(likelihood + games * np.logaddexp(0.0, -peak) - (points - games) * peak - effect**2 / 2.0))

    peak = lead + float(effect_modes(counts([games], [points]), np.array([lead]), 1.0)[0])
    total, mean = (quad(lambda e, n=n: e**n * density(e), -8, 8, points=[peak - lead])[0] for n in (0, 1))
    found = effect_posterior(counts([games], [points]), np.array([lead]), 1.0)
    assert found.mean[0] == pytest.approx(mean / total, rel=2e-3)
    spread = quad(lambda e: (e - mean / total) ** 2 * density(e), -8, 8, points=[peak - lead])[0]
    assert found.variance[0] == pytest.approx(spread / total, rel=0.02)


def test_modes_solve_their_equation() -> None:
    pairs = counts([10, 1000, 3], [0.0, 1000.0, 1.5])
    lead = np.array([4.0, -9.0, 0.0])
    effect = effect_modes(pairs, lead, 2.0)
    np.testing.assert_allclose(effect, 2.0 * (pairs.points - pairs.games * expit(lead + effect)), atol=1e-4)


@pytest.mark.parametrize("deviation", [0.0, 0.5, 1.5])
def test_learned_variance_is_that_of_the_effects(deviation: float) -> None:
    rng = np.random.default_rng(1)
    lead = rng.normal(0.0, 1.0, 2000)
    points = rng.binomial(20, expit(lead + rng.normal(0.0, deviation, lead.size))).astype(float)
    pairs, variance = counts([20.0] * lead.size, points.tolist()), 0.0
    for _ in range(20):
        variance = learned_variance(pairs, lead, 0.0, variance)
    assert variance == pytest.approx(deviation**2, rel=0.1, abs=0.01)


def test_mean_score_is_near_the_exact_mean() -> None:
    log_odds, variance = np.linspace(-4.0, 4.0, 9), np.full(9, 1.5)
    exact, spread = score_moments(log_odds, variance)
    np.testing.assert_allclose(mean_score(log_odds, variance), exact, atol=0.01)
    assert ((spread > 0.0) & (spread < exact * (1.0 - exact))).all()
