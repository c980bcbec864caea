"""Behaviour descriptors of players (fingerprints) and distances between them. Torch-free."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from arena.arrays import BoolArray, FloatArray

SIGNIFICANCE = 0.01
"""Significance level of the test whether players differ by a measure."""

_ONE_SIDED_95 = 1.644854


@dataclass(frozen=True, eq=False)
class Samples:
    """Moments of F behaviour measures of P players, one value per match.

    Attributes:
        matches: (P, F) number of values, >= 0.
        total: (P, F) sum of the values.
        squares: (P, F) sum of their squares.

    Raises:
        ValueError: The shapes differ, or a sum is not finite.
    """

    matches: FloatArray
    total: FloatArray
    squares: FloatArray

    def __post_init__(self) -> None:
        shapes = {each.shape for each in (self.matches, self.total, self.squares)}
        if len(shapes) > 1 or self.matches.ndim != 2:
            raise ValueError(
                f"matches, total and squares have shapes {shapes}: pass a row a player, a column a measure"
            )
        if not all(np.isfinite(each).all() for each in (self.matches, self.total, self.squares)):
            raise ValueError("matches, total or squares are not finite: use 0 matches for unknown measures")


@dataclass(frozen=True, eq=False)
class Fingerprints:
    """Behaviour descriptors of P players over F measures.

    Attributes:
        mean: (P, F) mean over a player's matches. NaN without matches.
        noise: (P, F) sampling variance of that mean. NaN if unknown.
        centre: (F,) mean over players. NaN without data.
        spread: (F,) standard deviation between players without sampling noise. 0 if the differences are not
            significant.
    """

    mean: FloatArray
    noise: FloatArray
    centre: FloatArray
    spread: FloatArray

    @property
    def discriminative(self) -> BoolArray:
        """(F,) true for discriminative measures, by which players differ significantly."""
        return np.asarray(self.spread > 0.0)

    def z_scores(self, player: int) -> FloatArray:
        """(F,) z-score of a player among all players; NaN for measures that are not discriminative."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.discriminative, (self.mean[player] - self.centre) / self.spread, np.nan)


@dataclass(frozen=True, eq=False)
class Distances:
    """Root mean square differences of K pairs, each over the values known for both players.

    Attributes:
        distance: (K,) estimate without sampling noise. NaN without common values.
        bound: (K,) upper bound of the distance at 95 % confidence. NaN without common values.
        values: (K,) number of common values.
    """

    distance: FloatArray
    bound: FloatArray
    values: NDArray[np.int64]


def fingerprints(samples: Samples) -> Fingerprints:
    """Estimate behaviour descriptors and the measures by which players differ.

    The variance of a value within a player is assumed equal for all players, so few matches suffice to estimate it.
    Cochran's Q test decides whether players differ by a measure. With means m_i and their variances v_i,

        Q = sum of (m_i - c)^2 / v_i    about    c = sum of (m_i / v_i) / sum of (1 / v_i)

    Q is chi-square distributed with P - 1 degrees of freedom if players do not differ. The share of the variance of the
    means that chance does not explain is I^2 = 1 - (P - 1) / Q. The spread is the square root of that share of the
    variance.

    Source: Higgins and Thompson 2002.
    """
    known = samples.matches > 0.0
    counts = np.maximum(samples.matches, 1.0)
    mean = np.where(known, samples.total / counts, np.nan)
    noise = np.where(known, _within(samples) / counts, np.nan)
    columns = [_column(mean[known[:, each], each], noise[known[:, each], each]) for each in range(mean.shape[1])]
    centre, spread = np.array(columns, dtype=np.float64).reshape(-1, 2).T
    return Fingerprints(mean, noise, centre, spread)


def fingerprint_distances(descriptors: Fingerprints, player: int, others: ArrayLike) -> Distances:
    """Return a player's distances to others, in standard deviations between players, over the discriminative measures.

    Args:
        descriptors: Descriptors of all players.
        player: Index of the player.
        others: (K,) indices of the other players.
    """
    other_indices = np.asarray(others, dtype=np.int64)
    discriminative = descriptors.discriminative
    scale = descriptors.spread[discriminative]
    difference = (descriptors.mean[player, discriminative] - descriptors.mean[other_indices][:, discriminative]) / scale
    noise = (
        descriptors.noise[player, discriminative] + descriptors.noise[other_indices][:, discriminative]
    ) / np.square(scale)
    return root_mean_squares(difference, noise)


def root_mean_squares(difference: FloatArray, noise: FloatArray) -> Distances:
    """Estimate the root mean square of K rows of noisy differences, corrected for noise.

        D^2 = mean over m of (d_m^2 - v_m),    d_m the observed difference, v_m its variance

    The sum is approximated as normal with variance sum of 2 v_m^2 + 4 max(d_m^2 - v_m, 0) v_m.

    Args:
        difference: (K, M) observed differences. NaN if unknown.
        noise: (K, M) their variances.
    """
    known = np.isfinite(difference) & np.isfinite(noise)
    values = known.sum(axis=1)
    variance = np.where(known, noise, 0.0)
    surplus = np.where(known, np.square(difference), 0.0) - variance
    error = np.sqrt((2.0 * variance**2 + 4.0 * np.maximum(surplus, 0.0) * variance).sum(axis=1))
    count = np.where(values > 0, values, np.nan)
    # Single terms may be negative by chance. Clipping each of them would bias the sum upwards.
    square = np.maximum(surplus.sum(axis=1), 0.0) / count
    return Distances(np.sqrt(square), np.sqrt(square + _ONE_SIDED_95 * error / count), values)


def _within(samples: Samples) -> FloatArray:
    """Return the pooled variance (F,) of a value within a player; NaN if no player has two values."""
    between = np.square(samples.total) / np.maximum(samples.matches, 1.0)
    degrees = np.maximum(samples.matches - 1.0, 0.0).sum(axis=0)
    sums = np.maximum(samples.squares - between, 0.0).sum(axis=0)
    return np.asarray(np.where(degrees > 0.0, sums / np.maximum(degrees, 1.0), np.nan))


def _column(mean: FloatArray, noise: FloatArray) -> tuple[float, float]:
    """Return the mean of the players' known values of a measure, and their spread."""
    if not mean.size:
        return np.nan, 0.0
    centre, degrees = float(mean.mean()), mean.size - 1
    variance = float(mean.var(ddof=1)) if degrees else 0.0
    if not variance or not np.isfinite(noise).all():
        return centre, 0.0
    # Measures without noise, such as those of a deterministic match: every difference is real.
    if not noise.any():
        return centre, variance**0.5
    weights = 1.0 / noise
    heterogeneity = float((weights * np.square(mean - np.average(mean, weights=weights))).sum())
    if chdtrc(degrees, heterogeneity) > SIGNIFICANCE:
        return centre, 0.0
    return centre, (variance * max(1.0 - degrees / heterogeneity, 0.0)) ** 0.5
