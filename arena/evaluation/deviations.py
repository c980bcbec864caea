"""Deviations: pairs and players whose observed scores differ from the predicted ones beyond chance.

A difference is relevant from 5 points on, and significant after the false discovery rate is controlled over everything
that was compared. Both are required, because in thousands of games even a negligible difference is significant. A
difference that is not relevant gets the p-value 1, which keeps the procedure valid: p-values only grow.

    pair     P(at least as far from n p),  X ~ Binomial(n, p), two-sided and exact
    player   Fisher's combination over its pairs,  -2 sum_k log p_k ~ chi^2 with 2 K degrees of freedom

Source: Benjamini and Hochberg, "Controlling the false discovery rate" (1995); Fisher, "Statistical methods for research
workers" (1925), for the combination.
"""

import numpy as np
from scipy.special import betainc, gammaincc

from arena.arrays import BoolArray, FloatArray
from arena.evaluation.statistics import benjamini_hochberg
from arena.ratings.expected_score import PairCounts

SIGNIFICANCE = 0.01
"""False discovery rate of deviations."""

RELEVANT = 0.05
"""Difference of scores from which a deviation is relevant."""

_P_MIN = 1e-300  # of a pair, so that its logarithm is finite


def deviating_pairs(
    played: PairCounts, predicted: FloatArray, *, significance: float = SIGNIFICANCE, relevant: float = RELEVANT
) -> BoolArray:
    """Return which of K pairs score otherwise than predicted, by at least `relevant`.

    Args:
        played: Games and points of the K pairs, fractions allowed. Draws make the test conservative.
        predicted: (K,) expected scores of the `low` players, in [0, 1].
        significance: False discovery rate, in (0, 1).
        relevant: Smallest reported difference of scores.

    Returns:
        (K,) true for deviating pairs.
    """
    off = np.abs(played.points / played.games - predicted) >= relevant
    p_value = np.where(off, _p_values(played, predicted), 1.0)
    return np.asarray(benjamini_hochberg(p_value) < significance)


def deviating_players(
    played: PairCounts,
    predicted: FloatArray,
    players: int,
    *,
    significance: float = SIGNIFICANCE,
    relevant: float = RELEVANT,
) -> BoolArray:
    """Return which of P players score otherwise than predicted, taking all their pairs together.

    The size of a player's deviation is the root mean square difference of its scores, weighted by games, without the
    part that chance explains.

    Args:
        played: Games and points of K pairs.
        predicted: (K,) expected scores of the `low` players, in [0, 1].
        players: P.
        significance: False discovery rate, in (0, 1).
        relevant: Smallest reported deviation.

    Returns:
        (P,) true for deviating players; false without games.
    """

    def by_player(values: FloatArray) -> FloatArray:
        total = np.bincount(played.low, values, players) + np.bincount(played.high, values, players)
        return np.asarray(total, dtype=np.float64)

    games = by_player(played.games)
    beyond_chance = played.games * np.square(played.points / played.games - predicted) - predicted * (1.0 - predicted)
    off = (games > 0.0) & (by_player(beyond_chance) >= relevant**2 * games)
    pairs = by_player(np.ones(played.games.size))
    combined = by_player(-np.log(np.maximum(_p_values(played, predicted), _P_MIN)))
    compared = pairs > 0.0
    p_value = np.where(off[compared], gammaincc(pairs[compared], combined[compared]), 1.0)
    deviating = np.zeros(players, dtype=np.bool_)
    deviating[compared] = benjamini_hochberg(p_value) < significance
    return deviating


def _p_values(played: PairCounts, predicted: FloatArray) -> FloatArray:
    """Return the two-sided p-values of K pairs under the predicted scores."""
    won, lost = played.points, played.games - played.points
    with np.errstate(invalid="ignore"):  # the tail that holds everything has a parameter of 0
        at_least = np.where(won > 0.0, betainc(won, lost + 1.0, predicted), 1.0)
        at_most = np.where(lost > 0.0, betainc(lost, won + 1.0, 1.0 - predicted), 1.0)
    return np.minimum(2.0 * np.minimum(at_least, at_most), 1.0)
