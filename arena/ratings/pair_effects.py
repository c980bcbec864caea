"""Random effects of pairs: normal deviations of each pair's log-odds from a model (logistic-normal overdispersion).

    P(i beats j) = sigmoid(m_ij + e_ij)        e_ij ~ N(0, tau^2), the same in all games of the pair

The effect absorbs the part of a pair's results that a model m does not explain. As a pair plays more, its prediction
moves from the model towards its own record. A pair without games keeps the variance tau^2. A draw counts as half a win.

tau^2 maximises the evidence of all pairs, with a correction for the parameters of m that the same games determined.
It is 0 if, by a score test, results scatter less than one standard deviation more than by chance.

Source: Williams, "Extra-binomial variation in logistic linear models" (1982), model III; Naylor and Smith,
"Applications of a method for the efficient computation of posterior distributions" (1982), for adaptive quadrature;
MacKay, "Bayesian interpolation" (1992), for tau^2, and "The evidence framework applied to classification networks"
(1992), for the mean score.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from arena.arrays import FloatArray
from arena.ratings.expected_score import PairCounts

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_SHARES = _WEIGHTS / _WEIGHTS.sum()
_START, _VARIANCE_MIN, _VARIANCE_MAX = 0.05, 1e-3, 9.0  # 0.001 moves no score by 0.1 %
_STEPS, _TOLERANCE = 3, 0.01
_NEWTON_STEPS, _NEWTON_TOLERANCE = 60, 1e-7
_UNDETERMINED_MIN = 0.1  # share of the effects' information that is left to them, however many parameters there are


@dataclass(frozen=True, eq=False)
class Effects:
    """Posterior of the effects of K pairs.

    Attributes:
        mean: (K,) means.
        variance: (K,) variances, at most the prior's.
    """

    mean: FloatArray
    variance: FloatArray


def effect_modes(pairs: PairCounts, log_odds: FloatArray, variance: float) -> FloatArray:
    """Return the posterior modes of the effects of K pairs, (K,); arguments as of `effect_posterior`."""
    effect = np.zeros_like(log_odds)
    for _ in range(_NEWTON_STEPS if variance > 0.0 else 0):
        chance = expit(log_odds + effect)
        information = pairs.games * chance * (1.0 - chance)
        step = (variance * (pairs.points - pairs.games * chance) - effect) / (1.0 + variance * information)
        # The curvature changes by at most a factor of e over a distance of 1, so that these steps cannot diverge.
        effect += np.clip(step, -1.0, 1.0)
        if np.abs(step).max(initial=0.0) < _NEWTON_TOLERANCE:
            break
    return effect


def effect_posterior(pairs: PairCounts, log_odds: FloatArray, variance: float) -> Effects:
    """Return the posterior of the effects of K pairs, by adaptive Gauss-Hermite quadrature about the modes.

    Args:
        pairs: Games and points of the K pairs.
        log_odds: (K,) m, of each pair's lower player.
        variance: tau^2, >= 0.
    """
    if variance == 0.0:
        return Effects(np.zeros_like(log_odds), np.zeros_like(log_odds))
    mode = effect_modes(pairs, log_odds, variance)
    chance = expit(log_odds + mode)
    width = np.sqrt(variance / (1.0 + variance * pairs.games * chance * (1.0 - chance)))
    effect = mode[:, None] + width[:, None] * _NODES
    odds = log_odds[:, None] + effect
    height = pairs.points[:, None] * odds - pairs.games[:, None] * np.logaddexp(0.0, odds)
    height += 0.5 * np.square(_NODES) - 0.5 * np.square(effect) / variance
    weight = _SHARES * np.exp(height - height.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    mean = (weight * effect).sum(axis=1)
    spread = (weight * np.square(effect - mean[:, None])).sum(axis=1)
    return Effects(mean, np.minimum(spread, variance))


def learned_variance(pairs: PairCounts, log_odds: FloatArray, determined: float, start: float) -> float:
    """Return a better tau^2, in [0, 9]: some steps towards maximum evidence.

    Args:
        pairs: Games and points of the K pairs that m was fitted to.
        log_odds: (K,) m.
        determined: Effective number of m's parameters that the games determined.
        start: tau^2 so far.
    """
    if not _is_overdispersed(pairs, log_odds, determined):
        return 0.0
    variance = max(start, _START)
    for _ in range(_STEPS):
        before, effects = variance, effect_posterior(pairs, log_odds, variance)
        known = 1.0 - effects.variance / variance  # share of each effect that its games determine
        total = max(float(known.sum()), _VARIANCE_MIN)
        left = total - float(np.square(known).sum()) / total * determined
        variance = float(np.square(effects.mean).sum()) / max(left, _UNDETERMINED_MIN * total)
        variance = min(variance, _VARIANCE_MAX)
        if variance < _VARIANCE_MIN:
            return 0.0
        if abs(variance - before) < _TOLERANCE * before:
            break
    return variance


def _is_overdispersed(pairs: PairCounts, log_odds: FloatArray, determined: float) -> bool:
    """Return whether the score test of tau^2 = 0 exceeds one standard deviation, with binomial fourth moments."""
    chance = expit(log_odds)
    of_game = chance * (1.0 - chance)
    weight = pairs.games * of_game
    total = float(weight.sum())
    if total == 0.0:
        return False
    by_chance = total - float(np.square(weight).sum()) / total * determined
    deviation = np.sqrt(float((weight * (1.0 - 6.0 * of_game) + 2.0 * np.square(weight)).sum()))
    return bool(np.square(pairs.points - pairs.games * chance).sum() - by_chance > deviation)


def mean_score(log_odds: FloatArray, variance: FloatArray | float) -> FloatArray:
    """Return the means of win probabilities whose log-odds are normal, (K,); MacKay's approximation."""
    return np.asarray(expit(log_odds / np.sqrt(1.0 + np.pi / 8.0 * variance)))


def score_moments(log_odds: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return means and variances of win probabilities whose log-odds are normal, (K,) each."""
    chance = expit(log_odds[:, None] + np.sqrt(variance)[:, None] * _NODES)
    mean = chance @ _SHARES
    return mean, np.square(chance - mean[:, None]) @ _SHARES
