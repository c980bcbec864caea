"""Ratings of frozen players from their whole history at once: penalised maximum likelihood of Bradley-Terry.

    P(i beats j) = 1 / (1 + exp(-(theta_i - theta_j)))        theta in units of 173.7178 points
    maximise  sum_ij s_ij log P(i beats j)  -  sum_k (theta_k - theta_0)^2 / (2 tau^2)
                                            -  sum_c (theta_c - theta_parent(c) - d)^2 / (2 s^2)

The first sum runs over all games (s_ij is what i scored against j, draws half), the second over the players without a
parent, the third over those with one. Anchors stay where they are. What is usual for a step from parent to child, its
mean d and its variance s^2, is learned from the steps themselves (empirical Bayes, by expectation and maximisation),
beginning with what a few virtual draws of child and parent would say. The covariance is the inverse of the curvature at
the maximum; it knows what ratings one by one cannot: players of a lineage err together.

Where results go in circles, strengths do not explain what a pair does, and its tenth game says less than its first. The
correlation rho of a pair's games is learned too, from how much farther than chance pairs are from what strengths say:
n games of a pair count as n / (1 + (n - 1) rho) do. Ratings are then what players score on average, whoever met whom
how often: those of a round robin (`arena.round_robin`). The covariance knows that one pair's games are not many pairs',
and that of a pair which has met often nothing is left to know. Where rho = 0 nothing of this changes.

Rating periods forget how sure they were of whom; a chain of snapshots, each rated against the one before, drifts. The
fit does not, because every game counts as much as on the day that it was played.

Linear algebra runs on one thread, so that the same results give the same bits in processes of any number of threads.

Source: Bradley and Terry (1952); Dempster, Laird and Rubin (1977) for d and s^2; Williams, "Extra-binomial variation in
logistic linear models" (1982), model II, for rho; Laplace's approximation for the covariance.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import cg
from scipy.special import expit, log_expit, ndtr
from threadpoolctl import threadpool_limits

from arena import round_robin
from arena.glicko2 import SCALE, START_RATING, Results
from arena.lapack import inverse, solution
from arena.offsets import Leads, widened
from arena.refit_config import RefitConfig
from arena.round_robin import Meetings

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NO_PARENT = -1

USUAL = RefitConfig()

_STEP_TOLERANCE = 1e-9  # 2e-7 points
_LEARNING_ROUNDS = 20
_LEARNING_TOLERANCE = 0.02
_DENSE_MAX = 1_000  # players; up to there a factorisation takes less than conjugate gradients' many small calls
_PROBES = 16
_PROBE_TOLERANCE = 1e-4
_SOLVER_TOLERANCE = 1e-10
_SOLVER_STEPS = 5_000
_NEWTON_STEPS = 200  # from near the top it takes about five
_STEP_MAX = 8.0  # 1,400 points: where a start is so far off that nothing bends, Newton's step would leave the world
_HALVINGS = 60
_MIDDLE = START_RATING / SCALE
_START_MAX = 50.0  # 8,700 points from there
_CURVATURE_FLOOR = 1e-12  # of a pair 4,800 points apart
_VARIANCE_FLOOR = 0.01  # of a game, 800 points apart: one upset farther off is no proof that pairs differ
_CORRELATION_MAX = 0.9

_one_at_a_time = threading.Lock()  # the number of threads is the process's, not the caller's


@dataclass(frozen=True, eq=False)
class Fit:
    """Strengths of P players and how far they may be off.

    Attributes:
        rating: (P,) in points; anchors have theirs.
        covariance: (P, P) of the ratings, in points squared; 0 in the rows and columns of anchors.
    """

    rating: FloatArray
    covariance: FloatArray

    @property
    def deviation(self) -> FloatArray:
        """(P,) standard deviation of each rating, in points."""
        return np.sqrt(self.covariance.diagonal())

    def superiority(self) -> FloatArray:
        """Return (P, P) probabilities that the row's player is stronger than the column's; 0.5 on the diagonal.

        P(i > j) = Phi((r_i - r_j) / sqrt(V_ii + V_jj - 2 V_ij))

        Two anchors are compared without doubt.
        """
        lead = self.rating[:, None] - self.rating[None, :]
        variance = self.covariance.diagonal()
        spread = np.sqrt(np.maximum(variance[:, None] + variance[None, :] - 2.0 * self.covariance, 0.0))
        certain = np.where(lead == 0.0, 0.0, np.copysign(np.inf, lead))
        return np.asarray(ndtr(np.divide(lead, spread, out=certain, where=spread > 0.0)))


def fit(
    results: Results,
    start: ArrayLike,
    *,
    anchor: ArrayLike,
    parent: ArrayLike,
    config: RefitConfig = USUAL,
    leads: Leads | None = None,
) -> Fit:
    """Fit the strengths of P frozen players to all their games.

    Args:
        results: Rows over the P players, several rows of a pair allowed. Rows of a player against itself are dropped.
        start: (P,) ratings in points: those of the anchors, and where to begin the search for the others.
        anchor: (P,) true for those that keep their rating.
        parent: (P,) index of the player that each descends from, `NO_PARENT` (-1) for none. An anchor has none.
        config: The prior and the virtual draws.
        leads: How sure it is what sides gave, where the results have an advantage; None for certain.

    Returns:
        The mode of the posterior and the covariance there; where the games of pairs are alike, ratings and covariance
        of a round robin. A player without games stands a usual step from its parent; without a parent, at 1500 with the
        prior's deviation.

    Raises:
        ValueError: An index names no player, a column has another length than P, or players descend from each other.
    """
    given = np.asarray(start, dtype=np.float64)
    pinned = np.asarray(anchor, dtype=np.bool_)
    descent = np.asarray(parent, dtype=np.int64)
    _require(results, given, pinned, descent)
    theta = given / SCALE
    covariance = np.zeros((given.size, given.size))
    if not pinned.all():
        with _one_thread():
            unsure = _of_pairs(leads, results, pinned)
            covariance = _learn(theta, _pairs(results, pinned), pinned, descent, config, unsure)
    covariance *= SCALE**2
    return Fit(rating=np.where(pinned, given, SCALE * theta), covariance=covariance)


@dataclass(frozen=True)
class _Step:
    """What is usual for a step from parent to child: mean d and variance s^2."""

    mean: float
    variance: float


@dataclass(frozen=True, eq=False)
class _Posterior:
    """The logarithm of the posterior as a function of (P,) strengths, of which F are free to move.

    Attributes:
        pairs: What was played.
        free: (F,) which players.
        precision: (F,) 1 / variance of the prior of each; 0 where only the parent tells of it.
        child: (C,) the free players with a parent.
        parent: (C,) their parents.
        step: What is usual from parent to child.
    """

    pairs: Meetings
    free: IntArray
    precision: FloatArray
    child: IntArray
    parent: IntArray
    step: _Step

    def height(self, theta: FloatArray) -> float:
        """Return its value, up to a constant."""
        lead = theta[self.pairs.low] - theta[self.pairs.high]
        lost = self.pairs.games - self.pairs.points
        likelihood = self.pairs.points * log_expit(lead) + lost * log_expit(-lead)
        prior = self.precision * np.square(theta[self.free] - _MIDDLE)
        descent = np.square(self._surplus_of_steps(theta)) / self.step.variance
        return float(likelihood.sum() - 0.5 * (prior.sum() + descent.sum()))

    def slope(self, theta: FloatArray) -> FloatArray:
        """Return (F,) first derivatives."""
        expected = self.pairs.games * expit(theta[self.pairs.low] - theta[self.pairs.high])
        total = _differences(self.pairs.low, self.pairs.high, self.pairs.points - expected, theta.size)
        pull = self._surplus_of_steps(theta) / self.step.variance
        total -= _differences(self.child, self.parent, pull, theta.size)
        return total[self.free] - self.precision * (theta[self.free] - _MIDDLE)

    def curvature(self, theta: FloatArray) -> csr_array:
        """Return (F, F) minus the second derivatives, positive definite; sparse as the pairs are."""
        lead = theta[self.pairs.low] - theta[self.pairs.high]
        weight = self.pairs.games * np.maximum(expit(lead) * expit(-lead), _CURVATURE_FLOOR)
        one = np.concatenate((self.pairs.low, self.child))
        other = np.concatenate((self.pairs.high, self.parent))
        weight = np.concatenate((weight, np.full(self.child.size, 1.0 / self.step.variance)))
        own = _sums(one, weight, theta.size) + _sums(other, weight, theta.size)
        place = np.full(theta.size, -1)
        place[self.free] = np.arange(self.free.size)
        both = (place[one] >= 0) & (place[other] >= 0)
        row, column, between = place[one][both], place[other][both], -weight[both]
        diagonal = np.arange(self.free.size)
        places = np.concatenate((diagonal, row, column)), np.concatenate((diagonal, column, row))
        return csr_array((np.concatenate((own[self.free] + self.precision, between, between)), places))

    def _surplus_of_steps(self, theta: FloatArray) -> FloatArray:
        return theta[self.child] - theta[self.parent] - self.step.mean


def _require(results: Results, start: FloatArray, anchor: BoolArray, parent: IntArray) -> None:
    players = start.size
    if start.ndim != 1 or not start.shape == anchor.shape == parent.shape:
        raise ValueError(
            f"start, anchor and parent have shapes {start.shape}, {anchor.shape} and {parent.shape}: "
            "pass one value per player"
        )
    _require_within("start", start, ~np.isfinite(start), "a rating must be finite")
    _require_within("home", results.home, results.home >= players, f"there are {players} players")
    _require_within("away", results.away, results.away >= players, f"there are {players} players")
    rule = f"a parent is one of the {players} players, or -1 for none"
    _require_within("parent", parent, (parent < NO_PARENT) | (parent >= players), rule)
    ancestor = parent
    for _ in range(players.bit_length()):  # twice as far up every time
        ancestor = np.where(ancestor == NO_PARENT, NO_PARENT, ancestor[ancestor])
    _require_within("parent", parent, ancestor != NO_PARENT, "nobody descends from itself")


def _require_within(name: str, values: NDArray[np.generic], wrong: BoolArray, rule: str) -> None:
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"{name}[{place}] is {values[place]}: {rule}")


def _pairs(results: Results, anchor: BoolArray) -> Meetings:
    """Sum games and points of each pair of which at least one can move."""
    tells = (results.home != results.away) & ~(anchor[results.home] & anchor[results.away])
    home, away, games = results.home[tells], results.away[tells], results.games[tells].astype(np.float64)
    points = games * results.deserved[tells]
    low, high = np.minimum(home, away), np.maximum(home, away)
    code, place = np.unique(low * anchor.size + high, return_inverse=True)
    return Meetings(
        low=code // anchor.size,
        high=code % anchor.size,
        games=_sums(place, games, code.size),
        points=_sums(place, np.where(home == low, points, games - points), code.size),
    )


def _of_pairs(leads: Leads | None, results: Results, anchor: BoolArray) -> Leads | None:
    """Return leads with the share of the lower of each pair of `_pairs`, in units of theta."""
    if leads is None:
        return None
    at_home = _pairs(replace(results, score=0.5 + 0.5 * leads.share, advantage=None), anchor)
    return Leads(2.0 * at_home.points / at_home.games - 1.0, leads.variance / SCALE**2)


def _learn(
    theta: FloatArray,
    pairs: Meetings,
    anchor: BoolArray,
    parent: IntArray,
    config: RefitConfig,
    leads: Leads | None,
) -> FloatArray:
    """Move `theta` to where ratings are and learn the usual step on the way; return the (P, P) covariance there."""
    free = np.flatnonzero(~anchor)
    child = free[parent[free] != NO_PARENT]
    theta[free] = np.clip(theta[free], _MIDDLE - _START_MAX, _MIDDLE + _START_MAX)
    precision = np.where(parent[free] == NO_PARENT, (SCALE / config.prior_deviation) ** 2, 0.0)
    probes = _probes(child.size)
    step = known = _Step(0.0, 4.0 / config.parent_draws)
    correlation = 0.0
    for _ in range(_LEARNING_ROUNDS):
        posterior = _Posterior(_weighed(pairs, correlation), free, precision, child, parent[child], step)
        _climb(posterior, theta, _LEARNING_TOLERANCE)
        unsure = _variance_of_steps(posterior, theta, probes)
        before, step = step, _usual_step(posterior, theta, unsure, known, config.parent_weight)
        seemed = correlation
        if config.pair_correlation:
            correlation = _correlation(pairs, theta, free.size - unsure / before.variance)
        if _alike(before, step) and abs(correlation - seemed) < _LEARNING_TOLERANCE:
            break
    _climb(posterior, theta, _STEP_TOLERANCE)
    moving = inverse(posterior.curvature(theta).toarray(order="F"))
    if leads is not None:
        moving = widened(moving, theta, free, posterior.pairs, leads)
    if seemed > 0.0:
        hold = (SCALE / config.prior_deviation) ** 2
        theta[:], moving = round_robin.rate(theta, moving, free, pairs, seemed, hold)
    covariance = np.zeros((theta.size, theta.size))
    covariance[np.ix_(free, free)] = moving
    return covariance


def _probes(size: int) -> FloatArray:
    """Return vectors z, (K, size), of which sum_k z_k' M z_k is the trace of M, or near it where K < size.

    Source: Hutchinson, "A stochastic estimator of the trace of the influence matrix" (1990).
    """
    if size <= _PROBES:
        return np.eye(size)
    signs = np.random.default_rng(0).integers(0, 2, (_PROBES, size))  # the same for the same players, whoever asks
    return np.asarray(np.where(signs == 1, 1.0, -1.0) / np.sqrt(_PROBES))


def _variance_of_steps(posterior: _Posterior, theta: FloatArray, probes: FloatArray) -> float:
    """Return how uncertain the steps from parent to child are, the sum of their variances."""
    between = [_differences(posterior.child, posterior.parent, probe, theta.size)[posterior.free] for probe in probes]
    if not between:
        return 0.0
    right = np.array(between).T
    return float((right * _solved(posterior.curvature(theta), right, _PROBE_TOLERANCE)).sum())


def _usual_step(posterior: _Posterior, theta: FloatArray, unsure: float, known: _Step, weight: float) -> _Step:
    """Return the mean and the variance of steps that are as `unsure` as that; `known` counts as `weight` steps."""
    steps = theta[posterior.child] - theta[posterior.parent]
    mean = float(steps.sum()) / (steps.size + weight)
    spread = float(np.square(steps - mean).sum()) + unsure
    return _Step(mean, (weight * known.variance + spread) / (steps.size + weight))


def _weighed(pairs: Meetings, correlation: float) -> Meetings:
    """Return each pair's games as what they tell: n games count as n / (1 + (n - 1) rho)."""
    share = 1.0 / (1.0 + (pairs.games - 1.0) * correlation)
    return replace(pairs, games=share * pairs.games, points=share * pairs.points)


def _correlation(pairs: Meetings, theta: FloatArray, fitted: float) -> float:
    """Return the correlation of a pair's games at which pairs are as far from what strengths say as is usual by chance.

        sum_k (points_k - n_k p_k)^2 / (n_k p_k (1 - p_k) (1 + (n_k - 1) rho))  =  f        f = (K - fitted) R / K

    over the R of all K pairs that met more than once. Chi-square of f degrees of freedom is f on average; what is less
    than a standard deviation, sqrt(2 f), above that at rho = 0 is chance.

    Args:
        pairs: K pairs as they were played.
        theta: (P,) strengths.
        fitted: How many numbers were fitted to them; what a prior tells is not.

    Returns:
        In [0, 0.9]; 0 where chance alone explains as much.
    """
    chance = expit(theta[pairs.low] - theta[pairs.high])
    variance = pairs.games * np.maximum(chance * (1.0 - chance), _VARIANCE_FLOOR)
    again = pairs.games > 1.0
    surprise = (np.square(pairs.points - pairs.games * chance) / variance)[again]
    freedom = max(again.size - fitted, 1.0) * surprise.size / max(again.size, 1)

    def excess(correlation: float) -> float:
        return float((surprise / (1.0 + (pairs.games[again] - 1.0) * correlation)).sum() - freedom)

    if excess(0.0) <= np.sqrt(2.0 * freedom):
        return 0.0
    if excess(_CORRELATION_MAX) >= 0.0:
        return _CORRELATION_MAX
    return float(brentq(excess, 0.0, _CORRELATION_MAX))


def _alike(one: _Step, other: _Step) -> bool:
    """Say whether two usual steps differ by little, compared with how far a step is from the usual one."""
    apart = abs(one.mean - other.mean) / one.variance**0.5
    return bool(max(apart, abs(1.0 - other.variance / one.variance)) < _LEARNING_TOLERANCE)


def _differences(plus: IntArray, minus: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Sum values per index, added where it is in `plus` and taken off where it is in `minus`."""
    return _sums(plus, values, size) - _sums(minus, values, size)


def _sums(place: IntArray, values: FloatArray, size: int) -> FloatArray:
    return np.bincount(place, weights=values, minlength=size).astype(np.float64, copy=False)


def _climb(posterior: _Posterior, theta: FloatArray, tolerance: float) -> None:
    """Move `theta` to the maximum by Newton's method, halving steps that do not rise; end with a step that small."""
    height = posterior.height(theta)
    for _ in range(_NEWTON_STEPS):
        step = _solved(posterior.curvature(theta), posterior.slope(theta)[:, None])[:, 0]
        step *= _STEP_MAX / max(np.abs(step).max(), _STEP_MAX)
        for _ in range(_HALVINGS):
            tried = theta.copy()
            tried[posterior.free] += step
            risen = posterior.height(tried)
            if risen >= height:
                break
            step *= 0.5
        else:
            return  # no step rises above rounding: this is the top
        theta[:], height = tried, risen
        if np.abs(step).max() < tolerance:
            return


def _solved(matrix: csr_array, right: FloatArray, tolerance: float = _SOLVER_TOLERANCE) -> FloatArray:
    """Solve for the columns of `right`, (F, K): at once where the matrix is small, else by conjugate gradients.

    What the latter leaves undone, up to the tolerance, the next of Newton's steps does.
    """
    if len(right) <= _DENSE_MAX:
        return solution(matrix.toarray(order="F"), right)
    inverse_diagonal = diags_array(1.0 / matrix.diagonal())
    settings = {"rtol": tolerance, "maxiter": _SOLVER_STEPS, "M": inverse_diagonal}
    return np.stack([cg(matrix, column, **settings)[0] for column in right.T], axis=1)


@contextmanager
def _one_thread() -> Iterator[None]:
    with _one_at_a_time, threadpool_limits(1, user_api="blas"):
        yield
