"""Bradley-Terry ratings of frozen players, fitted to their whole history by penalised maximum likelihood.

    P(i beats j) = 1 / (1 + exp(-(theta_i - theta_j)))        theta in units of 173.7178 points
    maximise  sum_ij s_ij log P(i beats j)  -  sum_k (theta_k - theta_0)^2 / (2 tau^2)
                                            -  sum_c (theta_c - theta_parent(c) - d)^2 / (2 s^2)

The first sum runs over all games, where s_ij is the score of i against j and a draw counts half. The second runs over
players without a parent, the third over players with one. The ratings of anchors are fixed. The mean d and the variance
s^2 of a step from parent to child are estimated from the steps themselves (empirical Bayes by
expectation-maximisation). Their prior is equivalent to a few virtual draws between child and parent. The covariance is
the inverse of the negative Hessian at the posterior mode. It includes the correlation of errors within a lineage, which
separate rating deviations cannot express.

With intransitive results, strengths do not explain the score of a pair, and its tenth game carries less information
than its first. The fit therefore also estimates the correlation rho of the games of a pair from the overdispersion of
the pair scores: n games of a pair count as n / (1 + (n - 1) rho). Ratings are then the expected scores in a round robin
(`arena.ratings.expected_score`), which do not depend on how often each pair was matched. The covariance accounts for
the correlation of a pair's games and for pairs that have already played (finite-population correction). With rho = 0
the result is the plain fit.

Rating periods lose information about past opponents, so a chain of snapshots, each rated against the one before,
drifts. The fit does not drift, because it weights all games alike, whatever their age.

Above 2,500 players the covariance is not stored as a matrix (`arena.ratings.covariance`). The fit then computes only
the deviations, and callers solve for the covariances they need. The fit starts from the stored ratings, uses no state
of the process, and runs linear algebra on one thread. A rebuild in any process is therefore bit-identical.

Source: Bradley and Terry (1952); Dempster, Laird and Rubin (1977) for d and s^2; Williams, "Extra-binomial variation in
logistic linear models" (1982), model II, for rho; Laplace's approximation for the covariance.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from arena.arrays import BoolArray, FloatArray, IntArray, refuse, sum_by_index
from arena.ratings import expected_score as round_robin
from arena.ratings.bradley_terry_config import RefitConfig
from arena.ratings.covariance import EXACT, Covariance
from arena.ratings.expected_score import PairCounts
from arena.ratings.glicko2 import SCALE, Results
from arena.ratings.history_posterior import (
    MIDDLE,
    HistoryPosterior,
    LaplacianPattern,
    LineageStep,
    LinearSolver,
    newton_ascent,
    sum_differences,
)
from arena.ratings.linear_algebra import ONE_THREAD

NO_PARENT = -1

USUAL = RefitConfig()

_STEP_TOLERANCE = 1e-9  # 2e-7 points
_LEARNING_ROUNDS = 20
_LEARNING_TOLERANCE = 0.02
_PROBED = 40_000  # steps times probes; leaves an error of 0.7 % in the sum of variances
_PROBES_MIN, _PROBES_MAX = 2, 16
_PROBE_TOLERANCE = 1e-3
_ROUGH_TOLERANCE = 1e-3
_SOLVER_TOLERANCE = 1e-10
_START_MAX = 50.0  # 8,700 points from the middle
# of a game between players 800 points apart: a single upset beyond that must not suggest overdispersion
_VARIANCE_FLOOR = 0.01
_CORRELATION_MAX = 0.9


@dataclass(frozen=True, eq=False)
class Fit:
    """Posterior ratings of P players with their uncertainty.

    Attributes:
        rating: (P,) posterior mode in points; fixed for anchors.
        deviation: (P,) standard deviation of each rating, in points. 0 for anchors.
    """

    rating: FloatArray
    deviation: FloatArray
    _times: Callable[[FloatArray], FloatArray]

    @property
    def covariance(self) -> FloatArray:
        """(P, P) covariance of the ratings, in points squared; 0 in the rows and columns of anchors."""
        return self.covariance_of(np.arange(self.rating.size))

    def covariance_of(self, players: IntArray) -> FloatArray:
        """Return the (K, K) covariance of the ratings of K players, in points squared."""
        unit = np.zeros((self.rating.size, players.size))
        unit[players, np.arange(players.size)] = 1.0
        found = self.times(unit)[players]
        return 0.5 * (found + found.T)

    def times(self, right: FloatArray) -> FloatArray:
        """Return the product of the covariance and `right`, (P, K)."""
        with ONE_THREAD:
            return self._times(right)

    def relative_to(self, players: IntArray) -> "Fit":
        """Return the fit on a scale anchored at the mean of K players, which keeps its value and has no variance."""
        weight = np.bincount(players, minlength=self.rating.size)[:, None] / players.size

        def times(right: FloatArray) -> FloatArray:
            # The covariance of r_i - m: the mean of the K players is subtracted on both sides of the product.
            product = self._times(right - weight * right.sum(axis=0))
            return np.asarray(product - (weight * product).sum(axis=0))

        with ONE_THREAD:
            # Variance of r_i - m, with m the mean of the K players: V_ii - 2 Cov(r_i, m) + Var m.
            shared = self._times(weight)[:, 0]
        variance = self.deviation**2 - 2.0 * shared + float(shared[players].mean())
        return Fit(self.rating, np.sqrt(np.maximum(variance, 0.0)), times)

    def superiority(self, players: IntArray | None = None) -> FloatArray:
        """Return (K, K) probabilities that the row's player is stronger than the column's; 0.5 on the diagonal.

            P(i > j) = Phi((r_i - r_j) / sqrt(V_ii + V_jj - 2 V_ij))

        Between two anchors the result is 0, 0.5 or 1.

        Args:
            players: (K,) player indices. None for all.
        """
        chosen = np.arange(self.rating.size) if players is None else players
        rating, covariance = self.rating[chosen], self.covariance_of(chosen)
        lead = rating[:, None] - rating[None, :]
        variance = covariance.diagonal()
        spread = np.sqrt(np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 0.0))
        # Two anchors have no variance: 0 / 0 would be NaN, although their order is known.
        certain = np.where(lead == 0.0, 0.0, np.copysign(np.inf, lead))
        return np.asarray(ndtr(np.divide(lead, spread, out=certain, where=spread > 0.0)))


def fit(
    results: Results,
    start: ArrayLike,
    *,
    anchor: ArrayLike,
    parent: ArrayLike,
    config: RefitConfig = USUAL,
) -> Fit:
    """Fit the strengths of P frozen players to all their games.

    Args:
        results: Rows over the P players. A pair may have several rows. Rows of a player against itself are dropped.
        start: (P,) ratings in points: fixed values of anchors, starting points of the others.
        anchor: (P,) true for players whose rating is fixed.
        parent: (P,) index of each player's parent, `NO_PARENT` (-1) for none. Anchors have none.
        config: The prior and the virtual draws.

    Returns:
        The posterior mode and its covariance. If the games of pairs are correlated, ratings and covariance of a round
        robin instead. A player without games is rated one expected step from its parent, or without a parent at 1500
        with the prior's deviation.

    Raises:
        ValueError: An index is out of range, a column does not have length P, or the lineage has a cycle.
    """
    given = np.asarray(start, dtype=np.float64)
    pinned = np.asarray(anchor, dtype=np.bool_)
    descent = np.asarray(parent, dtype=np.int64)
    require_history(results, given, pinned, descent)
    theta = given / SCALE
    free = np.flatnonzero(~pinned)
    # players close in rating have played each other: sorting reduces the bandwidth
    free = free[np.argsort(given[free], kind="stable")]
    variance = np.zeros(given.size)
    if not free.size:
        return Fit(given, variance, np.zeros_like)
    with ONE_THREAD:
        found = _learn(theta, pair_counts(results, pinned), free, descent, config)
        variance[free] = found.variance

    def times(right: FloatArray) -> FloatArray:
        product = np.zeros_like(right)
        product[free] = SCALE**2 * found.times(right[free], EXACT)
        return product

    return Fit(np.where(pinned, given, SCALE * theta), SCALE * np.sqrt(variance), times)


def standard_errors(results: Results, rating: FloatArray) -> FloatArray:
    """Return the (P,) standard errors of ratings in points: how precisely a player's own games measure its strength.

        s_i = 173.7178 / sqrt(sum_j n_ij p_ij (1 - p_ij))        n_ij games, p_ij expected score

    The opponents' ratings count as known. In contrast to `Fit.deviation`, the distance to the anchors adds nothing, so
    that further games against similar players always reduce the error. It is infinite without games.

    Args:
        results: Rows over the P players.
        rating: (P,) in points.
    """
    chance = expit((rating[results.home] - rating[results.away]) / SCALE)
    information = results.games * chance * (1.0 - chance)
    total = sum_by_index(results.home, information, rating.size)
    total += sum_by_index(results.away, information, rating.size)
    with np.errstate(divide="ignore"):
        return np.asarray(SCALE / np.sqrt(total))


def require_history(results: Results, start: FloatArray, anchor: BoolArray, parent: IntArray) -> None:
    """Raise ValueError if results and players do not belong together, or players descend from each other."""
    players = start.size
    if start.ndim != 1 or not start.shape == anchor.shape == parent.shape:
        raise ValueError(
            f"start, anchor and parent have shapes {start.shape}, {anchor.shape} and {parent.shape}: "
            "pass one value per player"
        )
    refuse("start", start, ~np.isfinite(start), "a rating must be finite")
    refuse("home", results.home, results.home >= players, f"there are {players} players")
    refuse("away", results.away, results.away >= players, f"there are {players} players")
    rule = f"a parent is one of the {players} players, or -1 for none"
    refuse("parent", parent, (parent < NO_PARENT) | (parent >= players), rule)
    ancestor = parent
    for _ in range(players.bit_length()):  # pointer jumping: doubles the distance to the ancestor
        ancestor = np.where(ancestor == NO_PARENT, NO_PARENT, ancestor[ancestor])
    refuse("parent", parent, ancestor != NO_PARENT, "a player cannot descend from itself")


def pair_counts(results: Results, anchor: BoolArray) -> PairCounts:
    """Sum games and points per pair, leaving out pairs of two anchors."""
    tells = (results.home != results.away) & ~(anchor[results.home] & anchor[results.away])
    home, away, games = results.home[tells], results.away[tells], results.games[tells].astype(np.float64)
    points = games * results.score[tells]
    low, high = np.minimum(home, away), np.maximum(home, away)
    # One code per pair, so that rows of both directions and of several periods are summed.
    code, place = np.unique(low * anchor.size + high, return_inverse=True)
    return PairCounts(
        low=code // anchor.size,
        high=code % anchor.size,
        games=sum_by_index(place, games, code.size),
        points=sum_by_index(place, np.where(home == low, points, games - points), code.size),
    )


def _learn(theta: FloatArray, pairs: PairCounts, free: IntArray, parent: IntArray, config: RefitConfig) -> Covariance:
    """Fit `theta`, the step prior and the correlation; return the covariance of the free players."""
    child = np.sort(free[parent[free] != NO_PARENT])
    theta[free] = np.clip(theta[free], MIDDLE - _START_MAX, MIDDLE + _START_MAX)
    precision = np.where(parent[free] == NO_PARENT, (SCALE / config.prior_deviation) ** 2, 0.0)
    ends = np.concatenate((pairs.low, child)), np.concatenate((pairs.high, parent[child]))
    pattern = LaplacianPattern(*ends, free, theta.size)
    solver = LinearSolver()
    probes = _probes(child, parent[child], theta.size)[free]
    solution = np.zeros_like(probes)
    # A draw between equals has the information 1/4, so n virtual draws have the variance 4 / n.
    step = known = LineageStep(0.0, 4.0 / config.parent_draws)
    correlation = 0.0
    for _ in range(_LEARNING_ROUNDS):
        posterior = HistoryPosterior(
            effective_counts(pairs, correlation), pattern, free, precision, child, parent[child], step
        )
        # A rough mode is enough, because the next round changes the prior. Only the ascent after the loop is exact.
        newton_ascent(posterior, theta, _LEARNING_TOLERANCE, solver, _ROUGH_TOLERANCE)
        # Starts from the last solution, because the matrix changes little from round to round.
        solution = solver.solved(posterior.curvature(theta), probes, _PROBE_TOLERANCE, solution)
        # E-step: without the uncertainty of the steps, their variance would be underestimated.
        unsure = float((probes * solution).sum())
        before, step = step, _usual_step(posterior, theta, unsure, known, config.parent_weight)
        previous_correlation = correlation
        if config.pair_correlation:
            chance = expit(theta[pairs.low] - theta[pairs.high])
            correlation = pair_correlation(pairs, chance, free.size - unsure / before.variance)
        if _agree(before, step) and abs(correlation - previous_correlation) < _LEARNING_TOLERANCE:
            break
    newton_ascent(posterior, theta, _STEP_TOLERANCE, solver, _SOLVER_TOLERANCE)
    lineage = pattern.edges(child, parent[child])
    covariance = Covariance.of_curvature(posterior.curvature(theta), *lineage, solver.basis)
    # The last ascent used this correlation, not the estimate that followed it.
    if previous_correlation > 0.0:
        hold = (SCALE / config.prior_deviation) ** 2
        theta[:], covariance = round_robin.round_robin_ratings(
            theta, covariance, free, pairs, previous_correlation, hold
        )
    return covariance


def _probes(child: IntArray, parent: IntArray, players: int) -> FloatArray:
    """Return (P, K) vectors z for which sum_k z_k' C z_k estimates the summed variance of all C steps.

    The sum is exact if K = C.

    Source: Hutchinson, "A stochastic estimator of the trace of the influence matrix" (1990).
    """
    count = min(child.size, max(_PROBES_MIN, min(_PROBES_MAX, _PROBED // max(child.size, 1))))
    if child.size <= count:
        weights = np.eye(child.size)
    else:  # a fixed seed: the same players get the same probes in every process
        signs = np.random.default_rng(0).integers(0, 2, (count, child.size))
        weights = np.where(signs == 1, 1.0, -1.0) / np.sqrt(count)
    between = [sum_differences(child, parent, each, players) for each in weights]
    return np.array(between).reshape(-1, players).T


def _usual_step(
    posterior: HistoryPosterior, theta: FloatArray, unsure: float, known: LineageStep, weight: float
) -> LineageStep:
    """Return mean and variance of the steps (M-step).

    `unsure` is the summed posterior variance of the steps. `known` is a prior that counts as `weight` steps.
    """
    steps = theta[posterior.child] - theta[posterior.parent]
    mean = float(steps.sum()) / (steps.size + weight)
    spread = float(np.square(steps - mean).sum()) + unsure
    return LineageStep(mean, (weight * known.variance + spread) / (steps.size + weight))


def effective_counts(pairs: PairCounts, correlation: float) -> PairCounts:
    """Return effective games and points of each pair: n games count as n / (1 + (n - 1) rho)."""
    share = 1.0 / (1.0 + (pairs.games - 1.0) * correlation)
    return replace(pairs, games=share * pairs.games, points=share * pairs.points)


def pair_correlation(pairs: PairCounts, chance: FloatArray, fitted: float) -> float:
    """Estimate the correlation rho of a pair's games from the overdispersion of pair scores (method of moments).

        sum_k (points_k - n_k p_k)^2 / (n_k p_k (1 - p_k) (1 + (n_k - 1) rho))  =  f        f = (K - fitted) R / K

    The sum runs over the R of all K pairs with more than one game. A chi-square variable with f degrees of freedom has
    mean f and standard deviation sqrt(2 f). An excess below one standard deviation at rho = 0 is attributed to chance.

    Args:
        pairs: K pairs with their actual games.
        chance: (K,) expected score of each pair's lower player under the model.
        fitted: Effective number of fitted parameters, without those determined by a prior.

    Returns:
        rho in [0, 0.9]; 0 if chance alone explains the dispersion.
    """
    variance = pairs.games * np.maximum(chance * (1.0 - chance), _VARIANCE_FLOOR)
    again = pairs.games > 1.0
    squared_residuals = (np.square(pairs.points - pairs.games * chance) / variance)[again]
    # A single game of a pair tells nothing about correlation, so degrees of freedom shrink in proportion.
    freedom = max(again.size - fitted, 1.0) * squared_residuals.size / max(again.size, 1)

    def excess(correlation: float) -> float:
        return float((squared_residuals / (1.0 + (pairs.games[again] - 1.0) * correlation)).sum() - freedom)

    if excess(0.0) <= np.sqrt(2.0 * freedom):
        return 0.0
    if excess(_CORRELATION_MAX) >= 0.0:
        return _CORRELATION_MAX
    return float(brentq(excess, 0.0, _CORRELATION_MAX))


def _agree(one: LineageStep, other: LineageStep) -> bool:
    """Return whether two step priors agree within the learning tolerance, relative to the steps' spread."""
    mean_change = abs(one.mean - other.mean) / one.variance**0.5
    return bool(max(mean_change, abs(1.0 - other.variance / one.variance)) < _LEARNING_TOLERANCE)
