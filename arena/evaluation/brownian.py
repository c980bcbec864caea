"""Brownian motion between two absorbing bounds: the continuous approximation of a sequential test.

Source: Cox and Miller, "The theory of stochastic processes" (1965), section 5.7, for the series; Siegmund, "Sequential
analysis" (1985), chapter III, for one bound at a time.
"""

import math
from dataclasses import dataclass

import numpy as np

_EARLY = 1e-2  # share of the diffusion time between the bounds; below it the series needs too many terms
_STEEP = 15.0  # drift over diffusion between the bounds; above it the terms of the series cancel
_LEVEL = 1e-4  # drift over diffusion between the bounds; below it the difference of two exponentials loses digits
_TERMS_END = 50.0  # terms smaller than exp(-50) are left out


@dataclass(frozen=True)
class BoundedBrownianMotion:
    """Brownian motion that starts at 0 and stops at the first bound it reaches.

    Attributes:
        lower: Lower bound, < 0.
        upper: Upper bound, > 0.
        drift: Mean change per unit of time.
        variance: Variance of the change per unit of time, > 0.
    """

    lower: float
    upper: float
    drift: float
    variance: float

    def probability_below(self, time: float, value: float) -> float:
        """Return the probability of an outcome below the observed one.

            P(stopped at the lower bound by `time`) + P(not stopped by `time`, and below `value` then)

        For `value` at the lower bound this is the probability of having stopped there by `time`. At the upper bound it
        is the probability of not having stopped there by `time`.

        Args:
            time: > 0.
            value: Observed value, in [lower, upper].
        """
        height = self.upper - self.lower
        steepness = self.drift / self.variance
        if self.variance * time < _EARLY * height**2 or abs(steepness * height) > _STEEP:
            return self._below_by_reflection(time, value)
        return self._below_by_series(time, value)

    def mean_time(self) -> float:
        """Return the expected time until a bound is reached.

            E[T] = E[end] / drift,  P(upper) = expm1(-2 g |lower|) / expm1(-2 g (upper - lower)),  g = drift / v

        Without drift it is -lower upper / v.
        """
        slope = 2.0 * self.drift / self.variance
        height = self.upper - self.lower
        if abs(slope * height) < _LEVEL:
            return -self.lower * self.upper / self.variance
        if slope < 0.0:
            # The mirror image has a positive drift, whose exponentials do not overflow.
            return BoundedBrownianMotion(-self.upper, -self.lower, -self.drift, self.variance).mean_time()
        rises = math.expm1(slope * self.lower) / math.expm1(-slope * height)
        return (self.lower + height * rises) / self.drift

    def _below_by_series(self, time: float, value: float) -> float:
        """Sum the eigenfunctions of the motion between two bounds, of wave number k = n pi / height.

            P(lower bound ever) - 2 / height sum_k exp(g (z - x) - (k^2 + g^2) v t / 2) sin(k x)
                                             (k cos(k z) - g sin(k z)) / (k^2 + g^2)

        with g = drift / v, x the start and z the value, both above the lower bound. Each term solves the forward
        equation of the distribution, d/dt F = v / 2 d2/dz2 F - drift d/dz F.
        """
        height, start, above = self.upper - self.lower, -self.lower, value - self.lower
        g = self.drift / self.variance
        terms = math.ceil(height / math.pi * math.sqrt(2.0 * _TERMS_END / (self.variance * time)))
        k = np.arange(1, terms + 1) * math.pi / height
        squares = k**2 + g**2
        weight = np.exp(g * (above - start) - 0.5 * squares * self.variance * time) * np.sin(k * start) / squares
        waves = float(np.sum(weight * (k * np.cos(k * above) - g * np.sin(k * above))))
        # expm1 keeps the precision of small drifts.
        ever = math.expm1(2.0 * g * self.upper) / math.expm1(2.0 * g * height) if g else self.upper / height
        return ever - 2.0 / height * waves

    def _below_by_reflection(self, time: float, value: float) -> float:
        """Add the correction of each bound alone; the interaction of the two is negligible in this range."""
        from scipy.special import log_ndtr, ndtr  # lazy import: it would delay every command

        spread = math.sqrt(self.variance * time)
        g, mean = self.drift / self.variance, self.drift * time
        # In logarithms, because one factor overflows where the other underflows.
        stopped_low = math.exp(2.0 * g * self.lower + log_ndtr((2.0 * self.lower - value + mean) / spread))
        stopped_high = math.exp(2.0 * g * self.upper + log_ndtr((value - mean - 2.0 * self.upper) / spread))
        return float(ndtr((value - mean) / spread)) + stopped_low - stopped_high
