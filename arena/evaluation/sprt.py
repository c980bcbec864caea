"""A sequential test of two players: play until the evidence suffices, and no longer.

H0 says that the candidate is `elo0` points better than the champion, H1 that it is `elo1` points better. After every
pair of games the generalised log-likelihood ratio of the two is compared with two bounds: above the upper one the
candidate is accepted, below the lower one rejected, between them play goes on (a generalised sequential probability
ratio test, GSPRT).

    LLR = max over distributions with mean s1 of log P(results)  -  max over those with mean s0
    s = 1 / (1 + 10^(-elo / 400))        bounds: log(beta / (1 - alpha)), log((1 - beta) / alpha)

Games come in pairs on one seed with sides swapped, and a pair scores one of five values (pentanomial): luck that both
games share, and a side's advantage, do not count as evidence then. Games that are not paired score one of three
(trinomial).

The bounds suppose that the ratio ends exactly on one. It steps over, on average by E[step^2] / (2 E[step]) of the
steps by which it reaches new heights, and that much earlier the test stops. A test that stops at a bound has seen luck
in that direction; the estimate of elo allows for it (median unbiased).

Source: the mathematics of Stockfish's test framework fishtest; Van den Bergh, "A practical introduction to the GSPRT";
Owen, "Empirical likelihood" (2001), chapter 2, for the maxima; Siegmund, "Sequential analysis" (1985), corollary 8.33,
for the step over the bound.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from arena.arrays import FloatArray, share_column
from arena.evaluation.brownian import BoundedBrownianMotion

Decision = Literal["accept", "reject", "continue"]

ELO_LIMIT = 1000.0
"""Estimates of elo end here, in points."""

_EMPTY_CELL = 1e-3  # games counted where there were fewer, so that every value stays possible
_KINDS_OF_COUNTS = (3, 5)
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class SprtConfig:
    """What is tested, and how surely.

    Attributes:
        elo0: Lead of the candidate under H0, in points.
        elo1: Lead under H1, in points, > elo0.
        alpha: Probability of accepting at `elo0`, in (0, 0.5).
        beta: Probability of rejecting at `elo1`, in (0, 0.5).
        least_games: No verdict before so many games, >= 0.

    Raises:
        ValueError: A value is out of its range.
    """

    elo0: float = 0.0
    elo1: float = 20.0
    alpha: float = 0.05
    beta: float = 0.05
    least_games: int = 20

    def __post_init__(self) -> None:
        if not -ELO_LIMIT <= self.elo0 < self.elo1 <= ELO_LIMIT:
            raise ValueError(
                f"elo0 is {self.elo0} and elo1 {self.elo1}: elo1 must be above elo0, "
                f"and both within {ELO_LIMIT:g} points of 0"
            )
        for name in ("alpha", "beta"):
            share = getattr(self, name)
            if not 0.0 < share < 0.5:
                raise ValueError(f"{name} is {share}: it must be in (0, 0.5); 0.05 is usual")
        if self.least_games < 0:
            raise ValueError(f"least_games is {self.least_games}: it must be 0 or more; 20 is usual")

    @property
    def lower(self) -> float:
        """The bound below which the candidate is rejected."""
        return math.log(self.beta / (1.0 - self.alpha))

    @property
    def upper(self) -> float:
        """The bound above which the candidate is accepted."""
        return math.log((1.0 - self.beta) / self.alpha)


@dataclass(frozen=True)
class SprtState:
    """Where a test stands.

    Attributes:
        decision: "accept", "reject", or "continue" while more games are needed.
        games: Games that the decision rests on. Later ones, which were under way when it fell, count for nothing.
        counts: How many pairs (or games) scored each value, lowest first.
        llr: Generalised log-likelihood ratio of H1 to H0 after them.
        lower: Bound of rejection, the step over it allowed for.
        upper: Bound of acceptance.
    """

    decision: Decision
    games: int
    counts: tuple[float, ...]
    llr: float
    lower: float
    upper: float


@dataclass(frozen=True)
class EloEstimate:
    """By how many points a candidate is better, within 1,000 of 0.

    Attributes:
        elo: Median unbiased estimate.
        low: Lower end of the interval that holds the truth at least 95 times out of 100.
        high: Upper end.
    """

    elo: float
    low: float
    high: float


@dataclass(frozen=True)
class SprtResult:
    """What a test says: where it stands, and the candidate's lead."""

    stop: SprtState
    lead: EloEstimate


def run_sprt(scores: ArrayLike, config: SprtConfig, *, paired: bool = True) -> SprtResult:
    """Judge a candidate by its scores; see `stop` and `estimate`."""
    where = stop(scores, config, paired=paired)
    return SprtResult(where, estimate(where.counts, config))


def stop(scores: ArrayLike, config: SprtConfig, *, paired: bool = True) -> SprtState:
    """Find the first score that takes the log-likelihood ratio over a bound.

    A score between two of the five (or three) values counts as part of each, so that the mean stays: the spread is
    then taken for larger than it is, never for smaller.

    Args:
        scores: (N,) score of the candidate in [0, 1], in the order of play: the mean of both games of a pair, or one
            game's.
        config: The test.
        paired: Whether a score stands for a pair of games on one seed with sides swapped.

    Raises:
        ValueError: A score is not in [0, 1].
    """
    cells, games_each = (5, 2) if paired else (3, 1)
    counts = np.cumsum(_shared_among(share_column("scores", scores, "a score"), cells), axis=0)
    if not len(counts):
        return SprtState("continue", 0, (0.0,) * cells, 0.0, config.lower, config.upper)
    games = games_each * np.arange(1, len(counts) + 1)
    llr = log_likelihood_ratio(counts, config.elo0, config.elo1)
    lower, upper = config.lower + _overshoot(-llr), config.upper - _overshoot(llr)
    accepted, rejected = llr > upper, llr < lower
    over = np.flatnonzero((accepted | rejected) & (games >= config.least_games))
    last = int(over[0]) if over.size else len(counts) - 1
    decision: Decision = "continue"
    if over.size:
        decision = "accept" if accepted[last] else "reject"
    seen = tuple(counts[last].tolist())
    return SprtState(decision, int(games[last]), seen, float(llr[last]), float(lower[last]), float(upper[last]))


def log_likelihood_ratio(counts: ArrayLike, elo0: float, elo1: float) -> FloatArray:
    """Return the generalised log-likelihood ratio of mean s1 to mean s0.

        sum_i n_i log(p1_i / p0_i)        p_i = (n_i / n) / (1 + x (a_i - s)),  sum_i p_i a_i = s

    where p maximises the likelihood among distributions over the values a_i = 0, ..., 1 with mean s. A cell without
    games counts as a thousandth of one.

    Args:
        counts: (..., 3) games by score 0, 0.5, 1, or (..., 5) pairs by mean score 0, 0.25, 0.5, 0.75, 1; >= 0.
        elo0: Lead under H0, in points, within 1,000 of 0.
        elo1: Lead under H1, in points, within 1,000 of 0.

    Returns:
        (...) ratios; above 0 where H1 is likelier.

    Raises:
        ValueError: The counts are of another shape, negative or not finite, or a lead is too large.
    """
    for elo in (elo0, elo1):
        if not abs(elo) <= ELO_LIMIT:
            raise ValueError(f"elo is {elo}: a lead must be within {ELO_LIMIT:g} points of 0")
    n = _filled(counts)
    return np.asarray(np.sum(n * _jumps(n, elo0, elo1), axis=-1))


def estimate(counts: ArrayLike, config: SprtConfig) -> EloEstimate:
    """Estimate the candidate's lead from a test that stopped, or has not stopped yet, with these counts.

    An estimate is a lead at which the test ends below what was seen with a given probability: 0.5 for the median,
    0.975 and 0.025 for the ends. The log-likelihood ratio is taken for a Brownian motion between the bounds, whose
    drift and variance are those of the likeliest distribution with that lead (fishtest takes them to second order,
    which leads of hundreds of points would not allow). Tests of few games reach their bounds later than such a motion:
    their intervals are wider than they had to be.

    Args:
        counts: (3,) or (5,) counts as in `log_likelihood_ratio`.
        config: The test.
    """
    n = _filled(counts)
    jumps = _jumps(n, config.elo0, config.elo1)
    llr = float(n @ jumps)
    place = min(max(llr, config.lower), config.upper)
    time = float(n.sum()) * (place / llr if place != llr else 1.0)  # of a test past a bound: when it was there

    def below(tilt: float) -> float:
        share = _tilted(n, tilt)
        drift = float(share @ jumps)
        variance = float(share @ np.square(jumps - drift))
        return BoundedBrownianMotion(config.lower, config.upper, drift, variance).probability_below(time, place)

    ends = _tilt(n, ELO_LIMIT), _tilt(n, -ELO_LIMIT)
    tail = 0.5 * (1.0 - _CONFIDENCE)
    tilts = (_crossing(below, level, ends) for level in (0.5, 1.0 - tail, tail))
    return EloEstimate(*(_elo(float(_tilted(n, tilt) @ _values(n))) for tilt in tilts))


def _tilted(n: FloatArray, tilt: float) -> FloatArray:
    """Return (K,) shares that maximise the likelihood among distributions of one mean; the mean falls with the tilt.

    p_i / (1 + x (a_i - s)) is proportional to n_i / (1 + y a_i) with y = x / (1 - x s) = exp(tilt) - 1.
    """
    values = _values(n)
    share = n / (1.0 - values + math.exp(tilt) * values)
    return np.asarray(share / share.sum())


def _tilt(n: FloatArray, elo: float) -> float:
    ratios = _ratios(n, elo)
    return float(np.log(ratios[-1] / ratios[0]))


def _crossing(below: Callable[[float], float], level: float, ends: tuple[float, float]) -> float:
    """Return where a rising function takes a value; an end of the range where it does not."""
    from scipy.optimize import brentq  # here, because every command would wait for the import

    low, high = ends
    if below(low) >= level:
        return low
    if below(high) <= level:
        return high
    return float(brentq(lambda tilt: below(tilt) - level, low, high))


def _jumps(n: FloatArray, elo0: float, elo1: float) -> FloatArray:
    """Return (..., K) changes of the log-likelihood ratio by one more score of each value."""
    return np.asarray(np.log(_ratios(n, elo0) / _ratios(n, elo1)))


def _ratios(n: FloatArray, elo: float) -> FloatArray:
    """Return (..., K) shares seen over the likeliest shares with a given mean, 1 + x (a_i - s)."""
    distance = _values(n) - _mean(elo)
    return np.asarray(1.0 + _multiplier(n, distance)[..., None] * distance)


def _multiplier(n: FloatArray, distance: FloatArray) -> FloatArray:
    """Solve sum_i p_i a_i / (1 + x a_i) = 0 for x, the Lagrange multiplier of a given mean.

    The sum falls from infinity to minus infinity between the poles -1 / max a and -1 / min a. Nearer to a pole than
    `edge` its own term outweighs all others, so that the root lies between the edges.

    Args:
        n: (..., K) counts, > 0.
        distance: (K,) a, distances of the values from the mean, of both signs.
    """
    from scipy.optimize.elementwise import find_root

    p = n / n.sum(axis=-1, keepdims=True)
    low, high = -distance[0], distance[-1]
    edge_left = np.minimum(0.5 * p[..., -1] * high / low, 0.5)
    edge_right = np.minimum(0.5 * p[..., 0] * low / high, 0.5)

    def total(x: FloatArray, *shares: FloatArray) -> FloatArray:
        return np.asarray(
            sum(share * each / (1.0 + x * each) for share, each in zip(shares, distance.tolist(), strict=True))
        )

    bracket = (-(1.0 - edge_left) / high, (1.0 - edge_right) / low)
    found = find_root(total, bracket, args=tuple(np.moveaxis(p, -1, 0)))
    if not found.success.all():
        raise ArithmeticError("the likeliest distribution of a given mean was not found")
    return np.asarray(found.x)


def _overshoot(llr: FloatArray) -> FloatArray:
    """Return (N,) estimates, after each score, of how far the ratio will step over a bound above it."""
    record = np.maximum.accumulate(np.concatenate(([0.0], llr)))
    step = np.diff(record)
    first, second = np.cumsum(step), np.cumsum(np.square(step))
    return np.asarray(np.divide(second, 2.0 * first, out=np.zeros_like(first), where=first > 0.0))


def _shared_among(scores: FloatArray, cells: int) -> FloatArray:
    """Return (N, cells) counts, 1 in a row: each score in its cell, or shared between the two next to it."""
    place = scores * (cells - 1)
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(place[:, None] - np.arange(cells))))


def _filled(counts: ArrayLike) -> FloatArray:
    n = np.asarray(counts, dtype=np.float64)
    if n.ndim == 0 or n.shape[-1] not in _KINDS_OF_COUNTS:
        raise ValueError(
            f"counts have shape {n.shape}: pass 3 counts of games (lost, drawn, won) or 5 of pairs, last axis"
        )
    if not (np.isfinite(n) & (n >= 0.0)).all():
        raise ValueError(f"counts are {n.tolist()}: each must be finite and 0 or more")
    return np.maximum(n, _EMPTY_CELL)


def _values(n: FloatArray) -> FloatArray:
    return np.linspace(0.0, 1.0, n.shape[-1])


def _mean(elo: float) -> float:
    return float(1.0 / (1.0 + 10.0 ** (-elo / 400.0)))


def _elo(mean: float) -> float:
    return min(max(400.0 * math.log10(mean / (1.0 - mean)), -ELO_LIMIT), ELO_LIMIT)
