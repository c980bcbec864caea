"""Ratings as expected scores in a round robin over the whole population, with pair-specific effects.

Bradley-Terry treats all pair-specific deviations as noise. With intransitive results they are not noise: they are
constant per pair and become known once the pair has played. A rating is therefore defined as the expected score in a
round robin over all players, part of which has been observed (finite-population correction).

    P(i beats j) = p_ij + d_ij                  p_ij = 1 / (1 + exp(-(theta_i - theta_j))),  Var d_ij = rho v_ij
    E[d_ij]      = k_ij (s_ij / n_ij - p_ij)    k_ij = n_ij rho / (1 + (n_ij - 1) rho),  v_ij = p_ij (1 - p_ij)

Here s_ij is the score of a pair in n_ij games with correlation rho. Without games k_ij = 0. The round-robin ratings r
predict every player's score,

    sum_j 1 / (1 + exp(-(r_i - r_j))) + h (r_i - theta_i)  =  sum_j (p_ij + E[d_ij])

and, with C the covariance of theta, to first order

    Cov r = L^-1 (B C B + rho B) L^-1

L is the graph Laplacian with the weights 1 / (1 + exp(-(r_i - r_j))) (1 / (1 + exp(r_i - r_j))) of all pairs. B is the
Laplacian with the weights v_ij (1 - k_ij), the part that the pairs' own games leave unknown. Both have the precision h
of a weak prior added on the diagonal, which stabilises players far from all others. If every pair has played often, B
and the covariance go to 0. With rho = 0, r = theta and Cov r = C.

Source: Robinson, "That BLUP is a good thing" (1991), for E[d_ij]; Royall, "On finite population sampling theory under
certain linear regression models" (1970), for the uncertainty of a partly observed sum.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from arena.arrays import BoolArray, FloatArray, IntArray, sum_by_index
from arena.ratings.covariance import EXACT, Covariance
from arena.ratings.linear_algebra import solution
from arena.ratings.low_rank_logistic import LowRankLogistic, polynomials

_TOLERANCE = 1e-9  # 2e-7 points
_STEPS = 100
_STEP_MAX = 2.0  # 350 points
_HOLD = 1e-4  # precision of the start: a player that wins everything must not go to infinity
_DENSE_MAX = 1_000  # players; up to this number the matrices of all pairs take about a second
_DENSE_PER_POLYNOMIAL = 4  # with a wide rating range the low-rank basis is too large to save time


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Totals of K pairs that played: `low` < `high` (indices), games > 0 and the points of `low`, each (K,)."""

    low: IntArray
    high: IntArray
    games: FloatArray
    points: FloatArray

    def subset(self, chosen: BoolArray | IntArray) -> "PairCounts":
        """Return the chosen pairs."""
        return PairCounts(self.low[chosen], self.high[chosen], self.games[chosen], self.points[chosen])


def round_robin_ratings(
    theta: FloatArray, covariance: Covariance, free: IntArray, meetings: PairCounts, correlation: float, hold: float
) -> tuple[FloatArray, Covariance]:
    """Return round-robin ratings of P players and their covariance, from strengths and games.

    For many players no matrix of all pairs is built (`arena.ratings.low_rank_logistic`).

    Args:
        theta: (P,) strengths, in units of `arena.ratings.glicko2.SCALE` points.
        covariance: Covariance of the strengths of the F free players.
        free: (F,) indices of the free players.
        meetings: Games and points of each pair.
        correlation: rho of a pair's games, in (0, 1).
        hold: Prior precision h, > 0.

    Returns:
        (P,) ratings, equal to the strengths for fixed players, and the covariance of the F ratings.
    """
    if theta.size <= max(_DENSE_MAX, _DENSE_PER_POLYNOMIAL * polynomials(theta)):
        return _rate_few(theta, covariance, free, meetings, correlation, hold)
    return _rate_many(theta, covariance, free, meetings, correlation, hold)


def ratings_for_scores(start: FloatArray, score: FloatArray, free: IntArray) -> FloatArray:
    """Return the ratings at which P players have given scores in a round robin, in units of 173.7178 points.

    Args:
        start: (P,) ratings of the fixed players, and where the search begins for the others.
        score: (P,) scores against all players, including half a point against itself.
        free: (F,) indices of the players whose rating is found.
    """
    return _ratings_for_scores(start, score, _HOLD, free, lambda at: _Matrix.of(at, free, _HOLD))


def _rate_few(
    theta: FloatArray, covariance: Covariance, free: IntArray, meetings: PairCounts, correlation: float, hold: float
) -> tuple[FloatArray, Covariance]:
    """Dense solution with matrices of all pairs."""
    chance = expit(theta[:, None] - theta)
    share, pair_scores = _of_pairs(theta, meetings, correlation)
    rating = _ratings_for_scores(
        theta, chance.sum(axis=1) + pair_scores, hold, free, lambda at: _Matrix.of(at, free, hold)
    )
    open_share = np.ones_like(chance)
    open_share[meetings.low, meetings.high] = open_share[meetings.high, meetings.low] = 1.0 - share
    unknown = _laplacian(open_share * chance * (1.0 - chance))[np.ix_(free, free)]
    both = _Matrix.of(rating, free, hold)
    held = unknown + hold * np.eye(free.size)
    # L^-1 M L^-1 by two solutions, since L and M are symmetric.
    half = both.solution(held @ covariance.times(held, EXACT) + correlation * unknown)
    spread = both.solution(half.T)
    return rating, Covariance.of_matrix(0.5 * (spread + spread.T))


def _rate_many(
    theta: FloatArray, covariance: Covariance, free: IntArray, meetings: PairCounts, correlation: float, hold: float
) -> tuple[FloatArray, Covariance]:
    """Low-rank solution, applied to blocks of columns."""
    before = LowRankLogistic.of(theta, free, hold)
    share, pair_scores = _of_pairs(theta, meetings, correlation)
    rating = _ratings_for_scores(
        theta, before.score + pair_scores, hold, free, lambda at: LowRankLogistic.of(at, free, hold)
    )
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


class _ExpectedScores(Protocol):
    """Expected round-robin scores at given ratings, with their derivative."""

    @property
    def score(self) -> FloatArray:
        """(P,) expected score of each player against all players including itself."""

    def solution(self, right: FloatArray) -> FloatArray:
        """Return the (F, K) rating changes that change the scores by `right`."""


@dataclass(frozen=True, eq=False)
class _Matrix:
    """Dense win probabilities: their row sums, and the (F, F) Laplacian of their derivatives with h on the diagonal."""

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
    """Return k of each pair, (K,), and each player's expected score beyond its strength, sum_j E[d_ij], (P,)."""
    low, high, games = meetings.low, meetings.high, meetings.games
    share = games * correlation / (1.0 + (games - 1.0) * correlation)
    own = share * (meetings.points / games - expit(theta[low] - theta[high]))
    return share, sum_by_index(low, own, theta.size) - sum_by_index(high, own, theta.size)


def _ratings_for_scores(
    theta: FloatArray,
    score: FloatArray,
    hold: float,
    free: IntArray,
    scores_at: Callable[[FloatArray], _ExpectedScores],
) -> FloatArray:
    """Return the (P,) ratings that predict the scores, by Newton's method starting from the strengths.

    Both sides include a player's half point against itself.
    """
    rating = theta.copy()
    for _ in range(_STEPS):
        expected = scores_at(rating)
        shortfall = score - expected.score - hold * (rating - theta)
        step = expected.solution(shortfall[free, None])[:, 0]
        # Far from all others the slope is almost 0, and a full step would leave the range in which the model is linear.
        step *= _STEP_MAX / max(np.abs(step).max(), _STEP_MAX)
        rating[free] += step
        if np.abs(step).max() < _TOLERANCE:
            break
    return rating


def _laplacian(weights: FloatArray) -> FloatArray:
    """Return the graph Laplacian of symmetric (P, P) weights, in place."""
    # The diagonal is a player against itself, which no rating change affects.
    np.fill_diagonal(weights, 0.0)
    total = weights.sum(axis=1)
    np.negative(weights, out=weights)
    np.fill_diagonal(weights, total)
    return weights


def _sparse_laplacian(meetings: PairCounts, weights: FloatArray, size: int) -> csr_array:
    """Return the (P, P) graph Laplacian of K pairs with (K,) weights."""
    low, high = meetings.low, meetings.high
    indices = np.concatenate((low, high, low, high)), np.concatenate((low, high, high, low))
    return csr_array((np.concatenate((weights, weights, -weights, -weights)), indices), shape=(size, size))
