"""Statistical tests of a worker's results against the other workers' results of the same pairings; no database.

A stratum is the set of matches of one pairing, for training matches within one rating period because learners change.
Under the null hypothesis that results do not depend on the reporting worker, the n matches of a worker are a random
sample of the N matches of a stratum. With features x of each match, summed over all strata (Cochran-Mantel-Haenszel):

    t = sum of (own total of x  -  n mean)      V = sum of  n (N - n) / (N - 1) Cov(x)      chi-square = t' V^-1 t

with rank(V) degrees of freedom. The test needs no ratings, and a stratum may be as small as two matches. A stratum with
only one worker contributes nothing. If two workers can only be compared with each other, both or neither are suspect.

Scores: the features are the home score, whether the match is a draw, and the score of the favourite, that is the player
with the higher total in the pairing. A worker that swaps sides takes points from favourites. The variance has a lower
bound, that of a player with a 95 % win rate, so that a single surprise raises no alarm.

Lengths: the feature is the logarithm of the number of decisions. The test statistic is the mean difference from the
other workers, minus a tolerance, divided by its standard error.

Refusals: the share of refused results, minus a tolerance.

Source: Landis, Heyman and Koch, "Average partial association in three-way contingency tables" (1978).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr

MIN_GAMES = 5
"""Minimum number of matches in shared strata to test scores."""

MIN_LENGTHS = 50
"""Minimum number of matches in shared strata to test lengths."""

MIN_REPORTS = 20
"""Minimum number of reports to test refusals."""

TOLERATED_LENGTH = 0.05
"""Tolerated difference of the mean logarithm: 5 % longer or shorter."""

TOLERATED_REFUSALS = 0.05
"""Tolerated share of refused results."""

_VARIANCE_MIN = 0.05 * 0.95  # of a score
_TIED = 1e-9

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reports:
    """M reported matches of one kind.

    Attributes:
        worker: (M,) index of the worker, below W.
        pairing: (M,) index of the ordered pair (home, away).
        stratum: (M,) index of the stratum: matches of a pairing at constant strength.
        score: (M,) home score in [0, 1].
        decisions: (M,) length, at least 1.
    """

    worker: IntArray
    pairing: IntArray
    stratum: IntArray
    score: FloatArray
    decisions: IntArray

    def select(self, mask: NDArray[np.bool_]) -> Self:
        """Return the matches selected by a mask."""
        return type(self)(
            worker=self.worker[mask],
            pairing=self.pairing[mask],
            stratum=self.stratum[mask],
            score=self.score[mask],
            decisions=self.decisions[mask],
        )


@dataclass(frozen=True)
class Fit:
    """Test result of one worker: means `observed` and `expected` over `results` matches.

    `p_value` is the probability of a larger `chi_square` with `degrees` degrees of freedom by chance.
    """

    results: int
    observed: float
    expected: float
    chi_square: float
    degrees: int
    p_value: float


Check = Callable[[Reports, int], list[Fit | None]]


@dataclass(frozen=True, eq=False)
class _Comparison:
    """W workers' matches compared with the other workers' in shared strata.

    Attributes:
        shared: (M,) true for matches in strata with at least two workers.
        games: (W,) number of such matches per worker.
        surplus: (W, K) sums of the K features minus their expectation.
        covariance: (W, K, K) of the surplus.
        weight: (W,) sum of n (N - n) / N, which converts a difference of means into a surplus.
    """

    shared: NDArray[np.bool_]
    games: FloatArray
    surplus: FloatArray
    covariance: FloatArray
    weight: FloatArray

    def means(self, reports: Reports, value: FloatArray) -> list[float]:
        """Return each worker's mean over the matches in shared strata."""
        totals = _totals(reports.worker, value * self.shared, self.games.size)
        return list((totals / np.maximum(self.games, 1.0)).tolist())


def check_sequentially(check: Check, reports: Reports, workers: int, level: float) -> list[Fit | None]:
    """Test all workers, removing the most significant one and testing the rest again until none is below the level.

    The results of one bad worker would otherwise make the workers suspect that are compared with it.

    Args:
        check: `scores` or `lengths`.
        reports: Matches of all workers.
        workers: W.
        level: Significance level of an alarm.

    Returns:
        Fit of each worker at the time of its removal or at the end; None without enough matches.
    """
    flagged: dict[int, Fit] = {}
    while True:
        fits = check(reports, workers) if reports.worker.size else [None] * workers
        alarms = {worker: fit for worker, fit in enumerate(fits) if fit is not None and fit.p_value < level}
        if not alarms:
            return [flagged.get(worker, fit) for worker, fit in enumerate(fits)]
        worst = max(fit.chi_square for fit in alarms.values())
        # Two workers that share all their strata have equal statistics up to rounding, so both are removed.
        most_significant = {worker: fit for worker, fit in alarms.items() if fit.chi_square >= worst * (1.0 - _TIED)}
        flagged |= most_significant
        reports = reports.select(~np.isin(reports.worker, list(most_significant)))


def scores(reports: Reports, workers: int) -> list[Fit | None]:
    """Test each worker's scores; None for workers with fewer than `MIN_GAMES` matches in shared strata."""
    favourite = np.sign(_totals(reports.pairing, reports.score - 0.5))[reports.pairing]
    features = np.stack((reports.score, reports.score == 0.5, favourite * reports.score), axis=1)
    comparison = _compare(reports, features, workers)
    means = comparison.means(reports, reports.score)
    fits: list[Fit | None] = []
    for worker, games in enumerate(comparison.games.tolist()):
        if games < MIN_GAMES:
            fits.append(None)
            continue
        surplus, covariance = comparison.surplus[worker], comparison.covariance[worker].copy()
        np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), _VARIANCE_MIN * comparison.weight[worker]))
        # The features are collinear without draws or with one favourite per pairing, so V may be singular: least
        # squares applies its pseudo-inverse and returns the rank.
        solution, _, rank, _ = np.linalg.lstsq(covariance, surplus)
        chi_square = float(surplus @ solution)
        expected = means[worker] - float(surplus[0] / comparison.weight[worker])
        p_value = float(chdtrc(rank, chi_square))
        fits.append(Fit(int(games), means[worker], expected, chi_square, int(rank), p_value))
    return fits


def lengths(reports: Reports, workers: int) -> list[Fit | None]:
    """Test each worker's match lengths; None for workers with fewer than `MIN_LENGTHS` matches in shared strata."""
    comparison = _compare(reports, np.log(reports.decisions)[:, None], workers)
    means = comparison.means(reports, reports.decisions.astype(np.float64))
    fits: list[Fit | None] = []
    for worker, games in enumerate(comparison.games.tolist()):
        if games < MIN_LENGTHS:
            fits.append(None)
            continue
        excess = comparison.surplus[worker, 0] / comparison.weight[worker]
        error = np.sqrt(comparison.covariance[worker, 0, 0]) / comparison.weight[worker]
        z = max(abs(excess) - TOLERATED_LENGTH, 0.0) / error if error > 0.0 else 0.0
        expected = means[worker] / float(np.exp(excess))
        fits.append(Fit(int(games), means[worker], expected, z * z, 1, float(2.0 * ndtr(-z))))
    return fits


def refusals(refused: int, reported: int) -> Fit | None:
    """Test the share of a worker's refused results; None below `MIN_REPORTS` reports."""
    if reported < MIN_REPORTS:
        return None
    expected = reported * TOLERATED_REFUSALS
    z = max(0.0, (refused - expected) / np.sqrt(expected * (1.0 - TOLERATED_REFUSALS)))
    share = refused / reported
    return Fit(reported, share, TOLERATED_REFUSALS, z * z, 1, float(ndtr(-z)))


def _compare(reports: Reports, features: FloatArray, workers: int) -> _Comparison:
    """Compare (M, K) features of each worker's matches with the other workers' in the same strata."""
    stratum, strata = reports.stratum, int(reports.stratum.max()) + 1
    cells, cell = np.unique(reports.worker * strata + stratum, return_inverse=True)
    of_worker, of_stratum = np.divmod(cells, strata)
    games, stratum_sizes = _totals(cell), _totals(stratum)
    own, size = games, stratum_sizes[of_stratum]
    shared = own < size
    count = features.shape[1]
    means = (
        np.stack([_totals(stratum, column) for column in features.T], axis=1) / np.maximum(stratum_sizes, 1.0)[:, None]
    )
    deviations = features - means[stratum]
    # n (N - n) / (N - 1) Cov(x) for sampling without replacement; Cov has the denominator N, hence N (N - 1).
    sampling_variance = np.where(shared, own * (size - own) / np.maximum(size * (size - 1.0), 1.0), 0.0)
    covariance = np.empty((workers, count, count))
    for first in range(count):
        for second in range(count):
            squares = _totals(stratum, deviations[:, first] * deviations[:, second])[of_stratum]
            covariance[:, first, second] = _totals(of_worker, sampling_variance * squares, workers)
    return _Comparison(
        shared=shared[cell],
        games=_totals(of_worker, own * shared, workers),
        surplus=np.stack([_totals(reports.worker, column, workers) for column in deviations.T], axis=1),
        covariance=covariance,
        weight=_totals(of_worker, own * (size - own) / size, workers),
    )


def _totals(group: IntArray, value: FloatArray | None = None, size: int = 0) -> FloatArray:
    """Sum values by group; without values, count the rows."""
    totals: FloatArray = np.bincount(group, weights=value, minlength=size).astype(np.float64)
    return totals
