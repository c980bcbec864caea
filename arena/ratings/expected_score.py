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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from arena.arrays import FloatArray, IntArray
from arena.ratings.cholesky import solution
from arena.ratings.covariance import EXACT, Covariance
from arena.ratings.low_rank_logistic import LowRankLogistic, polynomials

_TOLERANCE = 1e-9
_STEPS = 100
_STEP_MAX = 2.0  # 350 points
_DENSE_MAX = 1_000  # players; up to there matrices of all pairs take about a second
_DENSE_PER_POLYNOMIAL = 4  # where somebody is so far off that players are not many beside polynomials


@dataclass(frozen=True, eq=False)
class PairCounts:
    """K pairs of players that met: `low` < `high`, games > 0 and what `low` scored in them, each (K,)."""

    low: IntArray
    high: IntArray
    games: FloatArray
    points: FloatArray


def round_robin_ratings(
    theta: FloatArray, covariance: Covariance, free: IntArray, meetings: PairCounts, correlation: float, hold: float
) -> tuple[FloatArray, Covariance]:
    """Return the ratings of a round robin of P players and their covariance, from strengths and games.

    Of many players no matrix of all pairs is made (`arena.ratings.low_rank_logistic`).

    Args:
        theta: (P,) strengths, in units of `arena.ratings.glicko2.SCALE` points.
        covariance: That of the strengths of the F players who are free to move.
        free: (F,) who that is.
        meetings: Who met whom.
        correlation: rho of a pair's games, in (0, 1).
        hold: h, > 0.

    Returns:
        (P,) ratings, those of the others being their strengths, and the covariance of the F ratings.
    """
    if theta.size <= max(_DENSE_MAX, _DENSE_PER_POLYNOMIAL * polynomials(theta)):
        return _rate_few(theta, covariance, free, meetings, correlation, hold)
    return _rate_many(theta, covariance, free, meetings, correlation, hold)


def _rate_few(
    theta: FloatArray, covariance: Covariance, free: IntArray, meetings: PairCounts, correlation: float, hold: float
) -> tuple[FloatArray, Covariance]:
    """Rate by matrices of all pairs."""
    chance = expit(theta[:, None] - theta)
    share, told = _of_pairs(theta, meetings, correlation)
    rating = _foretelling(theta, chance.sum(axis=1) + told, hold, free, lambda at: _Matrix.of(at, free, hold))
    open_share = np.ones_like(chance)
    open_share[meetings.low, meetings.high] = open_share[meetings.high, meetings.low] = 1.0 - share
    unknown = _laplacian(open_share * chance * (1.0 - chance))[np.ix_(free, free)]
    both = _Matrix.of(rating, free, hold)
    held = unknown + hold * np.eye(free.size)
    half = both.solution(held @ covariance.times(held, EXACT) + correlation * unknown)
    spread = both.solution(half.T)
    return rating, Covariance.of_matrix(0.5 * (spread + spread.T))


def _rate_many(
    theta: FloatArray, covariance: Covariance, free: IntArray, meetings: PairCounts, correlation: float, hold: float
) -> tuple[FloatArray, Covariance]:
    """Rate by what all pairs do to some columns at a time."""
    before = LowRankLogistic.of(theta, free, hold)
    share, told = _of_pairs(theta, meetings, correlation)
    rating = _foretelling(theta, before.score + told, hold, free, lambda at: LowRankLogistic.of(at, free, hold))
    both = LowRankLogistic.of(rating, free, hold)
    lead = theta[meetings.low] - theta[meetings.high]
    known = _sparse_laplacian(meetings, share * expit(lead) * expit(-lead), theta.size)[free][:, free]

    def held(columns: FloatArray) -> FloatArray:
        return np.asarray(before.times(columns) - known @ columns)

    def times(right: FloatArray, tolerance: float) -> FloatArray:
        spread = both.solution(right)
        unknown = held(spread)
        return both.solution(held(covariance.times(unknown, tolerance)) + correlation * (unknown - hold * spread))

    return rating, covariance.carried(times, before.own / both.own)


class _Foretold(Protocol):
    """What ratings foretell of a round robin, and how that changes with them."""

    @property
    def score(self) -> FloatArray:
        """(P,) what each scores against everybody and itself."""

    def solution(self, right: FloatArray) -> FloatArray:
        """Return the (F, K) changes of ratings that change scores by `right`, where h holds."""


@dataclass(frozen=True, eq=False)
class _Matrix:
    """The chances of few players: their sums, and the (F, F) Laplacian of their slopes with h on the diagonal."""

    score: FloatArray
    laplacian: FloatArray

    @classmethod
    def of(cls, rating: FloatArray, free: IntArray, hold: float) -> Self:
        chance = expit(rating[:, None] - rating)
        score = chance.sum(axis=1)
        return cls(score, _laplacian(chance * (1.0 - chance))[np.ix_(free, free)] + hold * np.eye(free.size))

    def solution(self, right: FloatArray) -> FloatArray:
        return solution(self.laplacian.copy(), right)


def _of_pairs(theta: FloatArray, meetings: PairCounts, correlation: float) -> tuple[FloatArray, FloatArray]:
    """Return k of each pair that met, (K,), and what everybody scores beyond strengths because of whom it met, (P,)."""
    low, high, games = meetings.low, meetings.high, meetings.games
    share = games * correlation / (1.0 + (games - 1.0) * correlation)
    own = share * (meetings.points / games - expit(theta[low] - theta[high]))
    told = np.bincount(low, own, theta.size) - np.bincount(high, own, theta.size)
    return share, told.astype(np.float64, copy=False)


def _foretelling(
    theta: FloatArray,
    score: FloatArray,
    hold: float,
    free: IntArray,
    foretold_by: Callable[[FloatArray], _Foretold],
) -> FloatArray:
    """Return the (P,) ratings that foretell everybody's score, by Newton's method from the strengths.

    The score counts a player's own half against itself, as the chances do.
    """
    rating = theta.copy()
    for _ in range(_STEPS):
        foretold = foretold_by(rating)
        lacking = score - foretold.score - hold * (rating - theta)
        step = foretold.solution(lacking[free, None])[:, 0]
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


def _sparse_laplacian(meetings: PairCounts, weights: FloatArray, size: int) -> csr_array:
    """Return the (P, P) Laplacian of the graph of the K pairs that met, by their (K,) weights."""
    low, high = meetings.low, meetings.high
    places = np.concatenate((low, high, low, high)), np.concatenate((low, high, high, low))
    return csr_array((np.concatenate((weights, weights, -weights, -weights)), places), shape=(size, size))
