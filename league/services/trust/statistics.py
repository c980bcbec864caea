"""Statistical tests of workers' results, without a database.

Scores. Ratings predict every match, but not exactly: what is added to a pairing's prediction is learned from the other
workers' results of it, as if the prediction itself had been seen in k0 games: in `PRIOR_GAMES`, or in fewer where the
ratings prove to predict badly. With n games of a worker whose scores exceed their predictions by r in sum, and n', r'
those of the others,

    k0 = PRIOR_GAMES / d      k = k0 + n'      shift = r' / k      z^2 = (r - n shift)^2 / (n v (k + n) / (k + 1))

with v the mean of p (1 - p). The denominator is the variance of a beta-binomial count: it grows with n^2, so that a
small error of the ratings is not taken for a lie however many games there are. Draws make it smaller than that.

d, the doubt, is the least of 1, 2, 4 ... by which the ratings alone (n' = 0) explain what others report: with which the
median over the other workers of the mean z^2 is 1 or less. Where results go in circles no ratings predict them, and no
good worker's results would fit. A worker without others is held to the ratings as they are.

The sum of z^2 over the worker's C pairings is compared with chi-square of C degrees of freedom.

Lengths. Compared are matches of one occasion: of the same two players and, where one of them learns, of the same rating
period, as each learner's matches grow longer or shorter in a way of their own. With n matches of a worker and n' of
others on an occasion, and d the difference of the means of the logarithms of their decisions,

    w = n n' / (n + n')      excess = sum(w d) / sum(w)      standard error = s / sqrt(sum(w))

with s the standard deviation within occasions. The excess beyond a tolerated one is compared with its standard error.
Of occasions that a worker has alone w is 0: they say nothing.

Refusals. Whether more than the tolerated share of a worker's reports is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr

from arena.payoff import PRIOR_GAMES

MIN_GAMES = 5
"""A pairing with fewer games of the worker is left out: its z is not near normal."""

MIN_LENGTHS = 50
"""Fewer matches say nothing about lengths."""

MIN_REPORTS = 20
"""Fewer reports say nothing about refusals."""

TOLERATED_LENGTH = 0.05
"""Difference of a mean logarithm: 5 % longer or shorter."""

TOLERATED_REFUSALS = 0.05
"""Share of a worker's reports."""

_DOUBTS = 2.0 ** np.arange(11)  # of how many fewer games ratings may turn out to be worth

_CERTAINTY = 0.05  # predictions are taken for no surer than this, or one surprise would be an alarm

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reports:
    """M matches of one kind, as workers reported them.

    Attributes:
        worker: (M,) which of W workers.
        pairing: (M,) which pair of players, sides told apart.
        occasion: (M,) which matches are of one length but for chance.
        score: (M,) home's, in [0, 1].
        predicted: (M,) home's mean score by the ratings that were in force, in [0, 1].
        decisions: (M,) length, at least 1.
    """

    worker: IntArray
    pairing: IntArray
    occasion: IntArray
    score: FloatArray
    predicted: FloatArray
    decisions: IntArray

    def chosen(self, mask: NDArray[np.bool_]) -> Self:
        """Return the matches that the mask chooses."""
        return type(self)(
            worker=self.worker[mask],
            pairing=self.pairing[mask],
            occasion=self.occasion[mask],
            score=self.score[mask],
            predicted=self.predicted[mask],
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
class _Cells:
    """C cells, each the matches of one worker in one group: sums over them, and over all others' in that group.

    `place` says for each match in which cell it is.
    """

    worker: IntArray
    games: FloatArray
    own: FloatArray
    others_games: FloatArray
    others: FloatArray
    place: IntArray


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
        alarms = [(fit.p_value, -fit.chi_square, worker) for worker, fit in enumerate(fits) if fit is not None]
        p_value, _, worst = min(alarms, default=(1.0, 0.0, 0))
        if p_value >= level:
            return [accused.get(worker, fit) for worker, fit in enumerate(fits)]
        accused[worst] = cast(Fit, fits[worst])
        reports = reports.chosen(reports.worker != worst)


def scores(reports: Reports, workers: int) -> list[Fit | None]:
    """Compare each worker's scores; None for one without a pairing of enough games."""
    predicted = np.clip(reports.predicted, _CERTAINTY, 1.0 - _CERTAINTY)
    cells = _cells(reports.worker, reports.pairing, reports.score - reports.predicted)
    variance = _sums(cells, predicted * (1.0 - predicted)) / cells.games
    used = cells.games >= MIN_GAMES

    def chi_square(confidence: FloatArray, shift: FloatArray) -> FloatArray:
        spread = cells.games * variance * (confidence + cells.games) / (confidence + 1.0)
        return (cells.own - shift) ** 2 / spread

    nothing = np.zeros_like(variance)
    by_ratings = np.stack([chi_square(PRIOR_GAMES / doubt + nothing, nothing) for doubt in _DOUBTS])
    doubts = _doubts(cells.worker[used], by_ratings[:, used], workers)
    confidence = PRIOR_GAMES / doubts[cells.worker] + cells.others_games
    shift = cells.games * cells.others / confidence
    expected = _sums(cells, reports.predicted) + shift
    return _fits(cells, workers, used, chi_square(confidence, shift), _sums(cells, reports.score), expected)


def lengths(reports: Reports, workers: int) -> list[Fit | None]:
    """Compare how long each worker's matches are with others' of the same occasions; None where these are too few."""
    length = np.log(reports.decisions)
    cells = _cells(reports.worker, reports.occasion, length)
    shared = cells.others_games > 0.0
    of_others = np.divide(cells.others, cells.others_games, out=np.zeros_like(cells.others), where=shared)
    weight = cells.games * cells.others_games / (cells.games + cells.others_games)

    def total(value: FloatArray) -> FloatArray:
        return _totals(cells.worker, value, workers)

    games, weights = total(cells.games * shared), total(weight)
    excess = total(weight * (cells.own / cells.games - of_others)) / np.where(weights > 0.0, weights, 1.0)
    error = _spread(reports.occasion, length) / np.sqrt(np.where(weights > 0.0, weights, 1.0))
    beyond = np.maximum(np.abs(excess) - TOLERATED_LENGTH, 0.0)
    z = np.divide(beyond, error, out=np.zeros_like(beyond), where=error > 0)
    counted = np.where(shared[cells.place], reports.decisions, 0.0)
    mean = _totals(reports.worker, counted, workers) / np.maximum(games, 1.0)
    p_value = 2.0 * ndtr(-z)
    return [
        Fit(int(games[each]), float(mean[each]), float(mean[each] / np.exp(excess[each])), float(z[each] ** 2), 1,
            float(p_value[each])) if games[each] >= MIN_LENGTHS else None
        for each in range(workers)
    ]  # fmt: skip


def refusals(refused: int, reported: int) -> Fit | None:
    """Judge the share of a worker's reports that was refused; None while there are too few."""
    if reported < MIN_REPORTS:
        return None
    expected = reported * TOLERATED_REFUSALS
    z = max(0.0, (refused - expected) / np.sqrt(expected * (1.0 - TOLERATED_REFUSALS)))
    share = refused / reported
    return Fit(reported, share, TOLERATED_REFUSALS, z * z, 1, float(ndtr(-z)))


def _cells(worker: IntArray, group: IntArray, value: FloatArray) -> _Cells:
    groups = int(group.max()) + 1
    keys, place = np.unique(worker * groups + group, return_inverse=True)
    its_worker, its_group = np.divmod(keys, groups)
    games, own = _totals(place), _totals(place, value)
    all_games, everybody = _totals(group), _totals(group, value)
    return _Cells(its_worker, games, own, all_games[its_group] - games, everybody[its_group] - own, place)


def _spread(group: IntArray, value: FloatArray) -> float:
    """Return the standard deviation of values about the means of their groups, which cost a degree of freedom each."""
    games = _totals(group)
    residual = value - (_totals(group, value) / np.maximum(games, 1.0))[group]
    return float(np.sqrt((residual**2).sum() / max(value.size - np.count_nonzero(games), 1)))


def _sums(cells: _Cells, value: FloatArray) -> FloatArray:
    return _totals(cells.place, value)


def _totals(group: IntArray, value: FloatArray | None = None, size: int = 0) -> FloatArray:
    """Sum values by group, or count where there are none."""
    totals: FloatArray = np.bincount(group, weights=value, minlength=size).astype(np.float64)
    return totals


def _fits(
    cells: _Cells, workers: int, used: NDArray[np.bool_], chi: FloatArray, observed: FloatArray, expected: FloatArray
) -> list[Fit | None]:
    def total(value: FloatArray) -> FloatArray:
        return _totals(cells.worker[used], value[used], workers)

    degrees, games, chi_square = total(np.ones_like(chi)), total(cells.games), total(chi)
    p_values = chdtrc(np.maximum(degrees, 1.0), chi_square)
    means = zip(total(observed).tolist(), total(expected).tolist(), strict=True)
    return [
        Fit(int(games[worker]), seen / games[worker], due / games[worker], float(chi_square[worker]),
            int(degrees[worker]), float(p_values[worker])) if games[worker] else None
        for worker, (seen, due) in enumerate(means)
    ]  # fmt: skip


def _doubts(worker: IntArray, chi_square: FloatArray, workers: int) -> FloatArray:
    """Return, for each worker, how far the ratings are to be doubted for the others' results to fit them."""
    degrees = _totals(worker, size=workers)
    known = np.flatnonzero(degrees)
    misfits = (_totals(worker, each, workers)[known] / degrees[known] for each in chi_square)
    too_sure = np.sum([_medians_of_others(misfit) > 1.0 for misfit in misfits], axis=0)
    doubts = np.ones(workers)
    doubts[known] = _DOUBTS[np.minimum(too_sure, _DOUBTS.size - 1)]
    return doubts


def _medians_of_others(value: FloatArray) -> FloatArray:
    """Return, for each of N values, the median of the other N - 1; 0 where there are none."""
    if value.size < 2:
        return np.zeros_like(value)
    ordered, rank = np.sort(value), np.argsort(np.argsort(value))
    middle = [(value.size - 2) // 2, (value.size - 1) // 2]  # of the others
    medians: FloatArray = np.mean([ordered[each + (rank <= each)] for each in middle], axis=0)
    return medians
