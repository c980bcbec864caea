"""Sequential probability ratio test (GSPRT) between a candidate and the champion.

Under H0 the candidate is `elo0` points better than the champion, under H1 `elo1` points. After every pair of games the
generalised log-likelihood ratio is compared with two bounds. Above the upper bound the candidate is accepted, below the
lower bound rejected, and in between play continues.

    LLR = max over distributions with mean s1 of log P(results)  -  max over those with mean s0
    s = 1 / (1 + 10^(-elo / 400))        bounds: log(beta / (1 - alpha)), log((1 - beta) / alpha)

Games are played in pairs on one seed with sides swapped, and a pair has one of five scores (pentanomial). Luck that
both games share and the advantage of a side then do not count as evidence.

The bounds assume that the ratio ends exactly on one of them. In fact it overshoots, on average by E[step^2] / (2
E[step]) of the steps by which it reaches new extremes. The bounds are corrected by this amount. A test that stopped at
a bound has seen luck in that direction, and the estimate of elo is median-unbiased to correct for it.

Source: the mathematics of Stockfish's test framework fishtest; Van den Bergh, "A practical introduction to the GSPRT";
Owen, "Empirical likelihood" (2001), chapter 2, for the maxima; Siegmund, "Sequential analysis" (1985), corollary 8.33,
for the overshoot.
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
"""Limit of elo estimates, in points."""

_EMPTY_CELL = 1e-3  # minimum count of each cell, so that every score has a positive probability
_PAIR_SCORES = 5
_KINDS_OF_COUNTS = (3, _PAIR_SCORES)
_CONFIDENCE = 0.95
_PRIOR_PAIRS = 4.0  # weight of a predicted score: 8 games, as in `arena.evaluation.payoff`
_NEAR = 1e-3  # of a bound: a corrected bound may lie beyond the plain one, on which the motion is absorbed


@dataclass(frozen=True)
class SprtConfig:
    """Hypotheses and error probabilities of the test.

    Attributes:
        elo0: Lead of the candidate under H0, in points.
        elo1: Lead under H1, in points, > elo0.
        alpha: Probability of accepting at `elo0`, in (0, 0.5).
        beta: Probability of rejecting at `elo1`, in (0, 0.5).
        least_games: Fewest games before a decision, >= 0.

    Raises:
        ValueError: A value is out of range.
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
                raise ValueError(f"{name} is {share}: it must be in (0, 0.5); 0.05 is typical")
        if self.least_games < 0:
            raise ValueError(f"least_games is {self.least_games}: it must be 0 or more; 20 is typical")

    @property
    def lower(self) -> float:
        """Rejection bound, before the correction for overshoot."""
        return math.log(self.beta / (1.0 - self.alpha))

    @property
    def upper(self) -> float:
        """Acceptance bound, before the correction for overshoot."""
        return math.log((1.0 - self.beta) / self.alpha)


@dataclass(frozen=True)
class SprtState:
    """State of a test.

    Attributes:
        decision: "accept", "reject", or "continue" while more games are needed.
        games: Games up to the decision. Later games, which were in progress when it was made, are ignored.
        counts: Number of pairs with each score, lowest first.
        llr: Generalised log-likelihood ratio of H1 to H0 after them.
        lower: Rejection bound, corrected for expected overshoot.
        upper: Acceptance bound, corrected for expected overshoot.
    """

    decision: Decision
    games: int
    counts: tuple[float, ...]
    llr: float
    lower: float
    upper: float


@dataclass(frozen=True)
class EloEstimate:
    """Estimated lead of a candidate in points, clipped to 1,000 either way.

    Attributes:
        elo: Median-unbiased estimate.
        low: Lower end of the 95 % confidence interval.
        high: Upper end.
    """

    elo: float
    low: float
    high: float


@dataclass(frozen=True)
class SprtResult:
    """Result of a test: its state and the candidate's estimated lead."""

    stop: SprtState
    lead: EloEstimate


def run_sprt(scores: ArrayLike, config: SprtConfig) -> SprtResult:
    """Run the test on a candidate's scores and estimate its lead (see `stop` and `estimate`)."""
    where = stop(scores, config)
    return SprtResult(where, estimate(where.counts, config))


def stop(scores: ArrayLike, config: SprtConfig) -> SprtState:
    """Find the first score that takes the log-likelihood ratio over a bound.

    A score between two of the five values is divided between them such that the mean is unchanged. This can only
    overestimate the variance.

    Args:
        scores: (N,) mean scores of the candidate in [0, 1], in the order of play, each of a pair of games on one seed
            with sides swapped.
        config: The test.

    Raises:
        ValueError: A score is not in [0, 1].
    """
    counts = np.cumsum(_shared_among(share_column("scores", scores, "a score")), axis=0)
    if not len(counts):
        return SprtState("continue", 0, (0.0,) * _PAIR_SCORES, 0.0, config.lower, config.upper)
    games = 2 * np.arange(1, len(counts) + 1)
    llr = log_likelihood_ratio(counts, config.elo0, config.elo1)
    # A walk in steps passes a bound by part of a step. Without this correction, errors would be rarer than agreed.
    lower, upper = config.lower + _overshoot(-llr), config.upper - _overshoot(llr)
    accepted, rejected = llr > upper, llr < lower
    # The ratio estimates the distribution from the same games, and a few games do not determine it.
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

    Here p maximises the likelihood among distributions over the values a_i = 0, ..., 1 with mean s. A cell without
    games counts as 0.001 games.

    Args:
        counts: (..., 3) games by score 0, 0.5, 1, or (..., 5) pairs by mean score 0, 0.25, 0.5, 0.75, 1; >= 0.
        elo0: Lead under H0, in points, within 1,000 of 0.
        elo1: Lead under H1, in points, within 1,000 of 0.

    Returns:
        (...) ratios, above 0 if H1 is likelier.

    Raises:
        ValueError: The counts are of another shape, negative or not finite, or a lead is too large.
    """
    for elo in (elo0, elo1):
        if not abs(elo) <= ELO_LIMIT:
            raise ValueError(f"elo is {elo}: a lead must be within {ELO_LIMIT:g} points of 0")
    n = _filled(counts)
    return np.asarray(np.sum(n * _jumps(n, elo0, elo1), axis=-1))


def estimate(counts: ArrayLike, config: SprtConfig) -> EloEstimate:
    """Estimate the candidate's lead from the counts of a test, whether it has stopped or not.

    Each value is the lead at which the test ends below the observed outcome with a given probability: 0.5 for the
    median, 0.975 and 0.025 for the ends of the interval. The log-likelihood ratio is modelled as a Brownian motion
    between the bounds, with drift and variance of the likeliest distribution with that lead. Fishtest takes them to
    second order, which is not accurate enough for leads of hundreds of points. Short tests reach their bounds later
    than the Brownian motion, so their intervals are conservative.

    Args:
        counts: (3,) or (5,) counts as in `log_likelihood_ratio`.
        config: The test.
    """
    n = _filled(counts)
    jumps = _jumps(n, config.elo0, config.elo1)
    llr = float(n @ jumps)
    # The motion stops exactly on a bound, but the observed ratio overshoots it.
    bounded_llr = min(max(llr, config.lower), config.upper)
    # past a bound: the time at which the test crossed it
    time = float(n.sum()) * (bounded_llr / llr if bounded_llr != llr else 1.0)

    def below(tilt: float) -> float:
        share = _tilted(n, tilt)
        drift = float(share @ jumps)
        variance = float(share @ np.square(jumps - drift))
        return BoundedBrownianMotion(config.lower, config.upper, drift, variance).probability_below(time, bounded_llr)

    ends = _tilt(n, ELO_LIMIT), _tilt(n, -ELO_LIMIT)
    tail = 0.5 * (1.0 - _CONFIDENCE)
    tilts = (_crossing(below, level, ends) for level in (0.5, 1.0 - tail, tail))
    return EloEstimate(*(_elo(float(_tilted(n, tilt) @ _values(n))) for tilt in tilts))


def expected_games(state: SprtState, predicted: float, config: SprtConfig) -> int:
    """Return the expected number of games of a test of pairs until its decision, those that were played included.

    The prediction counts as four pairs of independent games without draws, beside the pairs that were played. The
    log-likelihood ratio is modelled as a Brownian motion, as in `estimate`. The number is a forecast only: `stop`
    decides by the scores alone.

    Args:
        state: State of the test.
        predicted: Predicted score of the candidate in [0, 1], before the test.
        config: The test.
    """
    if state.decision != "continue":
        return state.games
    won, lost = predicted, 1.0 - predicted
    prior = _PRIOR_PAIRS * np.array([lost**2, 0.0, 2.0 * won * lost, 0.0, won**2])
    n = _filled(prior + np.array(state.counts))
    share, jumps = n / n.sum(), _jumps(n, config.elo0, config.elo1)
    drift = float(share @ jumps)
    variance = float(share @ np.square(jumps - drift))
    left = min(config.lower - state.llr, -_NEAR), max(config.upper - state.llr, _NEAR)
    remaining = BoundedBrownianMotion(*left, drift, variance).mean_time()
    return max(state.games + 2 * math.ceil(remaining), config.least_games)


def _tilted(n: FloatArray, tilt: float) -> FloatArray:
    """Return the (K,) likeliest distribution for a tilt, the parameter of its mean; the mean decreases with the tilt.

    p_i / (1 + x (a_i - s)) is proportional to n_i / (1 + y a_i) with y = x / (1 - x s) = exp(tilt) - 1.
    """
    values = _values(n)
    share = n / (1.0 - values + math.exp(tilt) * values)
    return np.asarray(share / share.sum())


def _tilt(n: FloatArray, elo: float) -> float:
    ratios = _ratios(n, elo)
    return float(np.log(ratios[-1] / ratios[0]))


def _crossing(below: Callable[[float], float], level: float, ends: tuple[float, float]) -> float:
    """Return the point at which an increasing function reaches a level, or the nearer end of the range."""
    from scipy.optimize import brentq  # lazy import: it would delay every command

    low, high = ends
    if below(low) >= level:
        return low
    if below(high) <= level:
        return high
    return float(brentq(lambda tilt: below(tilt) - level, low, high))


def _jumps(n: FloatArray, elo0: float, elo1: float) -> FloatArray:
    """Return (..., K) increments of the log-likelihood ratio by one more score of each value."""
    return np.asarray(np.log(_ratios(n, elo0) / _ratios(n, elo1)))


def _ratios(n: FloatArray, elo: float) -> FloatArray:
    """Return (..., K) ratios of observed shares to the likeliest shares with a given mean, 1 + x (a_i - s)."""
    distance = _values(n) - _mean(elo)
    return np.asarray(1.0 + _multiplier(n, distance)[..., None] * distance)


def _multiplier(n: FloatArray, distance: FloatArray) -> FloatArray:
    """Solve sum_i p_i a_i / (1 + x a_i) = 0 for x, the Lagrange multiplier of a given mean.

    The sum falls from infinity to minus infinity between the poles -1 / max a and -1 / min a. Closer to a pole than
    `edge`, the term of that pole outweighs all others, so the root lies between the edges.

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
    """Return (N,) estimates of the expected overshoot over an upper bound, after each score."""
    # Only steps to a new extreme can cross a bound, so only their overshoot matters.
    record = np.maximum.accumulate(np.concatenate(([0.0], llr)))
    step = np.diff(record)
    first, second = np.cumsum(step), np.cumsum(np.square(step))
    return np.asarray(np.divide(second, 2.0 * first, out=np.zeros_like(first), where=first > 0.0))


def _shared_among(scores: FloatArray) -> FloatArray:
    """Return (N, 5) one-hot counts; a score between two cells is divided linearly."""
    position = scores * (_PAIR_SCORES - 1)
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(position[:, None] - np.arange(_PAIR_SCORES))))


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
