"""Fingerprints: what players are like beside how well they score, and how far apart two of them are. Torch-free."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from arena.arrays import BoolArray, FloatArray

SIGNIFICANCE = 0.01
"""Share of measures that are taken to tell players apart and do not."""

_ONE_SIDED_95 = 1.644854


@dataclass(frozen=True, eq=False)
class Samples:
    """What was measured of P players by F measures, a value a match.

    Attributes:
        matches: (P, F) number of values, >= 0.
        total: (P, F) their sum.
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
    """Fingerprints of P players by F measures.

    Attributes:
        mean: (P, F) mean over a player's matches; NaN where there are none.
        noise: (P, F) variance of that mean; NaN where it is not known.
        centre: (F,) mean over players; NaN where nothing is known.
        spread: (F,) standard deviation among players, noise taken off; 0 where they differ no more than by chance.
    """

    mean: FloatArray
    noise: FloatArray
    centre: FloatArray
    spread: FloatArray

    @property
    def telling(self) -> BoolArray:
        """(F,) measures that tell players apart."""
        return np.asarray(self.spread > 0.0)

    def standing(self, player: int) -> FloatArray:
        """(F,) how many standard deviations a player is above the others; NaN where a measure does not tell."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.telling, (self.mean[player] - self.centre) / self.spread, np.nan)


@dataclass(frozen=True, eq=False)
class Distances:
    """Root mean square differences of K pairs, each over some values that are known of both.

    Attributes:
        distance: (K,) estimate, noise taken off; NaN where nothing is known of both.
        bound: (K,) below this it is with 95 % confidence; NaN likewise.
        values: (K,) over how many values.
    """

    distance: FloatArray
    bound: FloatArray
    values: NDArray[np.int64]


def fingerprints(samples: Samples) -> Fingerprints:
    """Estimate fingerprints, and by which measures players differ.

    A value's variance within a player is taken to be the same for all, so that few matches do for an estimate. Whether
    players differ by a measure is Cochran's test of their means m_i with the variances v_i,

        Q = sum of (m_i - c)^2 / v_i    about    c = sum of (m_i / v_i) / sum of (1 / v_i)

    which is chi-square distributed with P - 1 degrees where they do not. The share of the means' variance that chance
    does not explain is then I^2 = 1 - (P - 1) / Q, and the spread the root of that share of it.

    Source: Higgins and Thompson 2002.
    """
    known = samples.matches > 0.0
    counts = np.maximum(samples.matches, 1.0)
    mean = np.where(known, samples.total / counts, np.nan)
    noise = np.where(known, _within(samples) / counts, np.nan)
    columns = [_column(mean[known[:, each], each], noise[known[:, each], each]) for each in range(mean.shape[1])]
    centre, spread = np.array(columns, dtype=np.float64).reshape(-1, 2).T
    return Fingerprints(mean, noise, centre, spread)


def apart(prints: Fingerprints, player: int, others: ArrayLike) -> Distances:
    """Measure how far a player is from others, in standard deviations of the players, over the measures that tell.

    Args:
        prints: Of everybody.
        player: Index of a player.
        others: (K,) indices of others.
    """
    places = np.asarray(others, dtype=np.int64)
    telling = prints.telling
    scale = prints.spread[telling]
    difference = (prints.mean[player, telling] - prints.mean[places][:, telling]) / scale
    noise = (prints.noise[player, telling] + prints.noise[places][:, telling]) / np.square(scale)
    return root_mean_squares(difference, noise)


def root_mean_squares(difference: FloatArray, noise: FloatArray) -> Distances:
    """Estimate, for K pairs, the root mean square of differences that are known with an error.

        D^2 = mean over m of (d_m^2 - v_m),    d_m the observed difference, v_m its variance

    The sum is taken for normal with variance sum of 2 v_m^2 + 4 max(d_m^2 - v_m, 0) v_m.

    Args:
        difference: (K, M) observed differences; NaN where one is not known.
        noise: (K, M) their variances.
    """
    known = np.isfinite(difference) & np.isfinite(noise)
    values = known.sum(axis=1)
    variance = np.where(known, noise, 0.0)
    surplus = np.where(known, np.square(difference), 0.0) - variance
    error = np.sqrt((2.0 * variance**2 + 4.0 * np.maximum(surplus, 0.0) * variance).sum(axis=1))
    count = np.where(values > 0, values, np.nan)
    square = np.maximum(surplus.sum(axis=1), 0.0) / count
    return Distances(np.sqrt(square), np.sqrt(square + _ONE_SIDED_95 * error / count), values)


def _within(samples: Samples) -> FloatArray:
    """Return the variance (F,) of a value within a player; NaN where nobody has two."""
    between = np.square(samples.total) / np.maximum(samples.matches, 1.0)
    degrees = np.maximum(samples.matches - 1.0, 0.0).sum(axis=0)
    sums = np.maximum(samples.squares - between, 0.0).sum(axis=0)
    return np.asarray(np.where(degrees > 0.0, sums / np.maximum(degrees, 1.0), np.nan))


def _column(mean: FloatArray, noise: FloatArray) -> tuple[float, float]:
    """Return the mean of the players of whom a measure is known, and its spread among them."""
    if not mean.size:
        return np.nan, 0.0
    centre, degrees = float(mean.mean()), mean.size - 1
    variance = float(mean.var(ddof=1)) if degrees else 0.0
    if not variance or not np.isfinite(noise).all():
        return centre, 0.0
    if not noise.any():
        return centre, variance**0.5
    weights = 1.0 / noise
    heterogeneity = float((weights * np.square(mean - np.average(mean, weights=weights))).sum())
    if chdtrc(degrees, heterogeneity) > SIGNIFICANCE:
        return centre, 0.0
    return centre, (variance * max(1.0 - degrees / heterogeneity, 0.0)) ** 0.5
