"""Statistical tests of a worker's results against the other workers' results of the same pairings, without a database.

A stratum is the matches of one pairing, and if somebody learns in it, of one rating period: learners change. If it does
not matter who reports, chance decides which n of a stratum's N matches are a worker's own. Each match has features x,
and over all strata (Cochran, Mantel and Haenszel)

    t = sum of (own total of x  -  n mean)      V = sum of  n (N - n) / (N - 1) Cov(x)      chi-square = t' V^-1 t

with as many degrees of freedom as V has rank. No ratings enter, and strata may be as small as two matches. A stratum
that one worker has alone says nothing: nobody can be compared there. Of two workers that are compared with each other
alone, both or neither are suspect.

Scores. The features are home's score, whether the match is a draw, and the score of the pairing's favourite, who is
whoever scored more in it: a worker that mixes up sides takes from favourites what it gives to others. A variance counts
as at least that of a game that is won in 95 of 100, or one surprise would be an alarm.

Lengths. The feature is the logarithm of a match's decisions. The mean difference from the others' beyond a tolerated
one is compared with its standard error.

Refusals. The share of a worker's reports that is refused, beyond a tolerated one.

Source: Landis, Heyman and Koch, "Average partial association in three-way contingency tables" (1978).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr

MIN_GAMES = 5
"""Fewer matches that others played too say nothing about scores."""

MIN_LENGTHS = 50
"""Fewer matches say nothing about lengths."""

MIN_REPORTS = 20
"""Fewer reports say nothing about refusals."""

TOLERATED_LENGTH = 0.05
"""Difference of a mean logarithm: 5 % longer or shorter."""

TOLERATED_REFUSALS = 0.05
"""Share of a worker's reports."""

_VARIANCE_MIN = 0.05 * 0.95  # of a score
_TIED = 1e-9

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reports:
    """M matches of one kind, as workers reported them.

    Attributes:
        worker: (M,) which of W workers.
        pairing: (M,) which pair of players, sides told apart.
        occasion: (M,) which stratum: matches of a pairing between which nobody changed.
        score: (M,) home's, in [0, 1].
        decisions: (M,) length, at least 1.
    """

    worker: IntArray
    pairing: IntArray
    occasion: IntArray
    score: FloatArray
    decisions: IntArray

    def chosen(self, mask: NDArray[np.bool_]) -> Self:
        """Return the matches that the mask chooses."""
        return type(self)(
            worker=self.worker[mask],
            pairing=self.pairing[mask],
            occasion=self.occasion[mask],
            score=self.score[mask],
            decisions=self.decisions[mask],
        )


@dataclass(frozen=True)
class Fit:
    """How one worker's reports fit: over `results` matches the means `observed` and `expected`.

    Chance alone exceeds `chi_square`, of so many `degrees` of freedom, with the probability `p_value`.
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
    """W workers' matches beside the others' in the strata that they share.

    Attributes:
        shared: (M,) true for matches in such strata.
        games: (W,) how many of them are each worker's.
        surplus: (W, K) by how much the sums of K features exceed what chance leads to expect.
        covariance: (W, K, K) of the surplus.
        weight: (W,) sum of n (N - n) / N: a difference of means times this is a surplus.
    """

    shared: NDArray[np.bool_]
    games: FloatArray
    surplus: FloatArray
    covariance: FloatArray
    weight: FloatArray

    def means(self, reports: Reports, value: FloatArray) -> list[float]:
        """Return each worker's mean over the matches in these strata."""
        totals = _totals(reports.worker, value * self.shared, self.games.size)
        return list((totals / np.maximum(self.games, 1.0)).tolist())


def one_by_one(check: Check, reports: Reports, workers: int, level: float) -> list[Fit | None]:
    """Check all workers, taking the worst one's reports away while it is below the level: it must accuse no others.

    Args:
        check: `scores` or `lengths`.
        reports: Everybody's.
        workers: W.
        level: Probability below which a fit is an alarm.

    Returns:
        Each worker's fit among those that were not taken away before it; None where nothing can be said.
    """
    accused: dict[int, Fit] = {}
    while True:
        fits = check(reports, workers) if reports.worker.size else [None] * workers
        alarms = {worker: fit for worker, fit in enumerate(fits) if fit is not None and fit.p_value < level}
        if not alarms:
            return [accused.get(worker, fit) for worker, fit in enumerate(fits)]
        worst = max(fit.chi_square for fit in alarms.values())
        found = {worker: fit for worker, fit in alarms.items() if fit.chi_square >= worst * (1.0 - _TIED)}
        accused |= found
        reports = reports.chosen(~np.isin(reports.worker, list(found)))


def scores(reports: Reports, workers: int) -> list[Fit | None]:
    """Compare each worker's scores; None for one with too few matches that others played too."""
    favourite = np.sign(_totals(reports.pairing, reports.score - 0.5))[reports.pairing]
    features = np.stack((reports.score, reports.score == 0.5, favourite * reports.score), axis=1)
    found = _compare(reports, features, workers)
    means = found.means(reports, reports.score)
    fits: list[Fit | None] = []
    for worker, games in enumerate(found.games.tolist()):
        if games < MIN_GAMES:
            fits.append(None)
            continue
        surplus, covariance = found.surplus[worker], found.covariance[worker].copy()
        np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), _VARIANCE_MIN * found.weight[worker]))
        solution, _, rank, _ = np.linalg.lstsq(covariance, surplus)
        chi_square = float(surplus @ solution)
        expected = means[worker] - float(surplus[0] / found.weight[worker])
        p_value = float(chdtrc(rank, chi_square))
        fits.append(Fit(int(games), means[worker], expected, chi_square, int(rank), p_value))
    return fits


def lengths(reports: Reports, workers: int) -> list[Fit | None]:
    """Compare how long each worker's matches are with others' of the same occasions; None where these are too few."""
    found = _compare(reports, np.log(reports.decisions)[:, None], workers)
    means = found.means(reports, reports.decisions.astype(np.float64))
    fits: list[Fit | None] = []
    for worker, games in enumerate(found.games.tolist()):
        if games < MIN_LENGTHS:
            fits.append(None)
            continue
        excess = found.surplus[worker, 0] / found.weight[worker]
        error = np.sqrt(found.covariance[worker, 0, 0]) / found.weight[worker]
        z = max(abs(excess) - TOLERATED_LENGTH, 0.0) / error if error > 0.0 else 0.0
        expected = means[worker] / float(np.exp(excess))
        fits.append(Fit(int(games), means[worker], expected, z * z, 1, float(2.0 * ndtr(-z))))
    return fits


def refusals(refused: int, reported: int) -> Fit | None:
    """Judge the share of a worker's reports that was refused; None while there are too few."""
    if reported < MIN_REPORTS:
        return None
    expected = reported * TOLERATED_REFUSALS
    z = max(0.0, (refused - expected) / np.sqrt(expected * (1.0 - TOLERATED_REFUSALS)))
    share = refused / reported
    return Fit(reported, share, TOLERATED_REFUSALS, z * z, 1, float(ndtr(-z)))


def _compare(reports: Reports, features: FloatArray, workers: int) -> _Comparison:
    """Compare (M, K) features of each worker's matches with the others' in the same strata."""
    stratum, strata = reports.occasion, int(reports.occasion.max()) + 1
    cells, cell = np.unique(reports.worker * strata + stratum, return_inverse=True)
    of_worker, of_stratum = np.divmod(cells, strata)
    games, everybody = _totals(cell), _totals(stratum)
    own, together = games, everybody[of_stratum]
    shared = own < together
    count = features.shape[1]
    means = np.stack([_totals(stratum, column) for column in features.T], axis=1) / np.maximum(everybody, 1.0)[:, None]
    apart = features - means[stratum]
    drawn = np.where(shared, own * (together - own) / np.maximum(together * (together - 1.0), 1.0), 0.0)
    covariance = np.empty((workers, count, count))
    for one in range(count):
        for other in range(count):
            squares = _totals(stratum, apart[:, one] * apart[:, other])[of_stratum]
            covariance[:, one, other] = _totals(of_worker, drawn * squares, workers)
    return _Comparison(
        shared=shared[cell],
        games=_totals(of_worker, own * shared, workers),
        surplus=np.stack([_totals(reports.worker, column, workers) for column in apart.T], axis=1),
        covariance=covariance,
        weight=_totals(of_worker, own * (together - own) / together, workers),
    )


def _totals(group: IntArray, value: FloatArray | None = None, size: int = 0) -> FloatArray:
    """Sum values by group, or count where there are none."""
    totals: FloatArray = np.bincount(group, weights=value, minlength=size).astype(np.float64)
    return totals
