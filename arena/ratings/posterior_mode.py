"""Posterior mode of players with many games in one rating period (bursts), in place of one Newton step.

Glicko-2 linearises the likelihood once, at the rating before the period. That is accurate enough for ten games, but not
for thousands: a player that scores 99 % against equals gains 340 points instead of 798, with the smallest allowed
deviation, and a favourite that scores 50 % falls thousands of points below its opponents. At the mode the linearisation
point is the answer itself. The first iteration from the prior is Glicko-2's step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from arena.arrays import FloatArray, IntArray
from arena.ratings.volatility import log_volatility_change

_LOGIT_MAX = 500.0  # as in `arena.ratings.glicko2`: exp(-500) still squares against a deviation of 1e40
_MAGNITUDE_MAX = 1e40  # as in `arena.ratings.glicko2`: larger volatilities are clipped to this
_TOLERANCE = 1e-13  # of a step, relative to its size or to one unit of the Glicko-2 scale (174 points)
_ITERATIONS = 200  # Newton takes 5 to 15; bisection of the widest bracket, 1e98, takes 60
_WIDE = 1e3  # a bracket whose ends differ by this factor is bisected geometrically


@dataclass(frozen=True, eq=False)
class PairRecords:
    """Points of B players against each of their opponents: K pairs, each with all its games.

    Attributes:
        player: (K,) index of the player, in [0, B).
        weight: (K,) the paper's g of the opponent: slope of the expected score in the lead.
        lead: (K,) lead over the opponent before the period, on the Glicko-2 scale.
        won: (K,) points of the player.
        lost: (K,) points of the opponent.
        opponent_variance: (K,) prior variance of an opponent that is rated by the same games, else 0. The two share the
            residual in proportion to their variances. Otherwise each would absorb all of it.
    """

    player: IntArray
    weight: FloatArray
    lead: FloatArray
    won: FloatArray
    lost: FloatArray
    opponent_variance: FloatArray

    def slope_at(self, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradient and information of the log-likelihood, (B,) each, after rating changes `step`, (B,)."""
        lead = self.lead + step[self.player]
        moving = self.opponent_variance > 0.0
        if moving.any():
            lead = fixed_point(self._pair_slope, lead, self.opponent_variance)
        gradient, information = self._pair_slope(lead)
        # An opponent that moves too absorbs its part of the residual: its variance adds to that of the result.
        information = information / (1.0 + self.opponent_variance * information)
        return tuple(np.bincount(self.player, each, step.size) for each in (gradient, information))  # type: ignore[return-value]

    def _pair_slope(self, lead: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradient and information of each pair, (K,), at a lead; accurate even if E rounds to 0 or 1."""
        logit = np.clip(self.weight * lead, -_LOGIT_MAX, _LOGIT_MAX)
        ahead, x = logit >= 0.0, np.exp(-np.abs(logit))  # the sign is split off, so that exp cannot overflow
        residual = np.where(ahead, self.won * x - self.lost, self.won - self.lost * x) / (1.0 + x)
        information = (self.won + self.lost) * x / np.square(1.0 + x)
        return self.weight * residual, np.square(self.weight) * information


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior of B players before a burst.

    Attributes:
        phi: (B,) deviations on the Glicko-2 scale.
        sigma: (B,) volatilities. 0 for a player whose strength does not change.
        periods: (B,) number of periods that the burst counts as. The strength may change by sigma in each.
    """

    phi: FloatArray
    sigma: FloatArray
    periods: FloatArray

    def of(self, players: IntArray) -> Self:
        """Return the priors of a subset of players."""
        return type(self)(self.phi[players], self.sigma[players], self.periods[players])

    def variance(self, sigma: FloatArray) -> FloatArray:
        """Return the (B,) prior variance of the strength at the end of the burst."""
        return np.square(self.phi) + self.periods * np.square(sigma)


def rate_bursts(
    records: PairRecords, prior: Prior, tau: float, volatility_cap: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rate B players at the posterior mode; `arena.ratings.glicko2.rate_period` takes one Newton step instead.

    The volatility equation uses the Gaussian that is tangent to the likelihood at the mode (its information, and its
    gradient at the prior mean) and the variance of all periods. The mode is then computed again with the new
    volatility.

    Returns:
        Change of the rating, new deviation and new volatility, (B,) each, on the Glicko-2 scale.
    """
    sigma = np.minimum(prior.sigma, volatility_cap)
    still = np.zeros(prior.phi.size)
    step = fixed_point(records.slope_at, still, prior.variance(prior.sigma))
    gradient, information = records.slope_at(step)
    moving = prior.sigma > 0.0
    if moving.any():
        change = log_volatility_change(
            prior.phi[moving],
            (np.sqrt(prior.periods) * prior.sigma)[moving],
            information[moving],
            (gradient + information * step)[moving],
            tau,
        )
        sigma[moving] = np.minimum(prior.sigma[moving] * np.exp(0.5 * change), min(volatility_cap, _MAGNITUDE_MAX))
        step = fixed_point(records.slope_at, still, prior.variance(sigma))
        _, information = records.slope_at(step)
    # A prior variance of 0 gives 1 / inf: the strength stays known exactly.
    with np.errstate(divide="ignore"):
        deviation = 1.0 / np.hypot(1.0 / np.sqrt(prior.variance(sigma)), np.sqrt(information))
    return step, deviation, sigma


def fixed_point(
    slope: Callable[[FloatArray], tuple[FloatArray, FloatArray]], start: FloatArray, variance: FloatArray
) -> FloatArray:
    """Solve x = start + variance * gradient(x), the mode of a Gaussian prior times a log-concave likelihood.

    Safeguarded Newton (Numerical Recipes, `rtsafe`): a step that leaves the bracket, or is more than half of the one
    before, is replaced by bisection. Plain Newton diverges if a favourite loses. The gradient decreases in x, so the
    root lies between `start` and one fixed-point step from it. Each entry converges independently of the others.

    Args:
        slope: Gradient and information (minus its derivative) at x, elementwise.
        start: (B,) prior means.
        variance: (B,) prior variances.
    """
    x, open_ = start.copy(), np.ones(start.size, dtype=np.bool_)
    low = high = before = start
    for iteration in range(_ITERATIONS):
        gradient, information = slope(x)
        residual = x - start - variance * gradient
        if iteration == 0:
            low, high = np.minimum(x, x - residual), np.maximum(x, x - residual)
            before = high - low
        low, high = np.where(residual <= 0.0, x, low), np.where(residual >= 0.0, x, high)
        newton = x - residual / (1.0 + variance * information)
        steady = (low <= newton) & (newton <= high) & (2.0 * np.abs(newton - x) <= before)
        after = np.where(steady, newton, _middle(low, high, start))
        before = np.abs(after - x)
        # Converged entries stay, so the bits of a player do not depend on the others in the call.
        x = np.where(open_, after, x)
        open_ &= before > _TOLERANCE * np.maximum(1.0, np.abs(after))
        if not open_.any():
            break
    return x


def _middle(low: FloatArray, high: FloatArray, start: FloatArray) -> FloatArray:
    """Return a point inside the bracket.

    It is the midpoint, or the geometric mean of the distances from `start` if these differ by magnitudes.
    """
    near, far = low - start, high - start
    down = near < 0.0
    near, far = np.where(down, -far, near), np.where(down, -near, far)
    distance = np.where(far > _WIDE * np.maximum(near, 1.0), np.sqrt(np.maximum(near, 1.0) * far), 0.5 * (near + far))
    return start + np.where(down, -distance, distance)
