"""Ratings of what players score on average against everybody, where pairs have parts of their own.

A fit of strengths takes what strengths do not explain for chance. Where results go in circles it is not: what is
special about a pair stays, and once the two have met it is known. What a rating foretells is then a round robin of all
players, of which some pairs have met and others have not.

    P(i beats j) = p_ij + d_ij                  p_ij = 1 / (1 + exp(-(theta_i - theta_j))),  Var d_ij = rho v_ij
    E[d_ij]      = k_ij (s_ij / n_ij - p_ij)    k_ij = n_ij rho / (1 + (n_ij - 1) rho),  v_ij = p_ij (1 - p_ij)

for a pair that scored s_ij in n_ij games whose correlation is rho; where no game was played k_ij = 0. The ratings r of
a round robin are those that foretell everybody's score in it,

    sum_j 1 / (1 + exp(-(r_i - r_j))) + h (r_i - theta_i)  =  sum_j (p_ij + E[d_ij])

and, with C the covariance of theta, to first order

    Cov r = L^-1 (B C B + rho B) L^-1

where L has the weights 1 / (1 + exp(-(r_i - r_j))) (1 / (1 + exp(r_i - r_j))) of all pairs as a graph's Laplacian, B
those of v_ij (1 - k_ij), what pairs do not tell of themselves, and both have h added on the diagonal: the little that
holds whoever is far from everybody where its strength is. Where every pair has met often, B and the covariance go to 0.
Where rho = 0, r = theta and Cov r = C.

Source: Robinson, "That BLUP is a good thing" (1991), for E[d_ij]; Royall, "On finite population sampling theory under
certain linear regression models" (1970), for what is left uncertain of a sum of which a part was seen.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from arena.lapack import solution

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_TOLERANCE = 1e-9
_STEPS = 100
_STEP_MAX = 2.0  # 350 points


@dataclass(frozen=True, eq=False)
class Meetings:
    """K pairs of players that met: `low` < `high`, games > 0 and what `low` scored in them, each (K,)."""

    low: IntArray
    high: IntArray
    games: FloatArray
    points: FloatArray


def rate(
    theta: FloatArray, covariance: FloatArray, free: IntArray, meetings: Meetings, correlation: float, hold: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ratings of a round robin of P players and their covariance, from strengths and games.

    Args:
        theta: (P,) strengths, in units of `arena.glicko2.SCALE` points.
        covariance: (F, F) of the strengths of those who are free to move.
        free: (F,) who that is.
        meetings: Who met whom.
        correlation: rho of a pair's games, in (0, 1).
        hold: h, > 0.

    Returns:
        (P,) ratings, those of the others being their strengths, and (F, F) covariance.
    """
    chance = expit(theta[:, None] - theta)
    open_share, told = _of_pairs(chance, meetings, correlation)
    rating = _foretelling(theta, chance.sum(axis=1) + told, free, hold)
    unknown = _laplacian(open_share * chance * (1.0 - chance))[np.ix_(free, free)]
    chance = expit(rating[:, None] - rating)
    both = _laplacian(chance * (1.0 - chance))[np.ix_(free, free)] + hold * np.eye(free.size)
    held = unknown + hold * np.eye(free.size)
    half = solution(both.copy(), held @ covariance @ held + correlation * unknown)
    spread = solution(both, half.T)
    return rating, 0.5 * (spread + spread.T)


def _of_pairs(chance: FloatArray, meetings: Meetings, correlation: float) -> tuple[FloatArray, FloatArray]:
    """Return 1 - k of each pair, (P, P), and what everybody's opponents tell of themselves beyond strengths, (P,)."""
    low, high, games = meetings.low, meetings.high, meetings.games
    share = games * correlation / (1.0 + (games - 1.0) * correlation)
    own = share * (meetings.points / games - chance[low, high])
    open_share = np.ones_like(chance)
    open_share[low, high] = open_share[high, low] = 1.0 - share
    size = len(chance)
    told = np.bincount(low, own, size) - np.bincount(high, own, size)
    return open_share, told.astype(np.float64, copy=False)


def _foretelling(theta: FloatArray, score: FloatArray, free: IntArray, hold: float) -> FloatArray:
    """Return the (P,) ratings that foretell everybody's score, by Newton's method from the strengths.

    The score counts a player's own half against itself, as the chances do.
    """
    rating = theta.copy()
    for _ in range(_STEPS):
        chance = expit(rating[:, None] - rating)
        lacking = score - chance.sum(axis=1) - hold * (rating - theta)
        curvature = _laplacian(chance * (1.0 - chance))[np.ix_(free, free)] + hold * np.eye(free.size)
        step = solution(curvature, lacking[free, None])[:, 0]
        step *= _STEP_MAX / max(np.abs(step).max(), _STEP_MAX)
        rating[free] += step
        if np.abs(step).max() < _TOLERANCE:
            break
    return rating


def _laplacian(weights: FloatArray) -> FloatArray:
    """Return the Laplacian of a graph of (P, P) symmetric weights, which are overwritten."""
    np.fill_diagonal(weights, 0.0)
    total = weights.sum(axis=1)
    np.negative(weights, out=weights)
    np.fill_diagonal(weights, total)
    return weights
