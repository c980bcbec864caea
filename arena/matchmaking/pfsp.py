"""Weightings of opponents by win rate (PFSP) and by rating.

Source: Vinyals et al., "Grandmaster level in StarCraft II" (2019), methods, "Prioritized fictitious self-play".
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from arena.arrays import FloatArray, finite_column, share_column

WinRateWeighting = Literal["hard", "variance", "linear", "capped", "uniform"]

WEIGHT_FLOOR = 1e-10  # a smaller sum carries no information: uniform instead

_DISTANCE_MAX = 1e150  # in sigmas; its square is finite


def pfsp_weights(win_rates: ArrayLike, weighting: WinRateWeighting = "hard", power: float = 2.0) -> FloatArray:
    """Return prioritised fictitious self-play (PFSP) weights of opponents.

        hard      (1 - x)^power       opponents that beat the learner
        variance  x (1 - x)           opponents even with the learner
        linear    1 - x
        capped    min(0.5, 1 - x)     opponents that beat the learner, all stronger ones equally
        uniform   1

    Equal win rates give uniform weights. If the weights sum to less than 1e-10 (the learner always wins), they are
    uniform as well.

    Args:
        win_rates: (K,) probability x that the learner beats each opponent, in [0, 1].
        weighting: One of the names above.
        power: Exponent of "hard", >= 0. 0 is uniform, larger values focus on the strongest opponents.

    Returns:
        (K,) weights that sum to 1. An empty pool gives an empty array, which `opponent_distribution` turns into
        self-play.

    Raises:
        ValueError: A win rate is not in [0, 1], the weighting is unknown, or the power is negative.

    Source: Vinyals et al. (2019), methods; "capped" is min(0.5, 1 - x) of its league exploiters' pseudocode.
    """
    x = share_column("win_rates", win_rates, "a win rate")
    _require_weighting(weighting, get_args(WinRateWeighting))
    require_power(power)
    match weighting:
        case "hard":
            weights = (1.0 - x) ** power
        case "variance":
            weights = x * (1.0 - x)
        case "linear":
            weights = 1.0 - x
        case "capped":
            weights = np.minimum(0.5, 1.0 - x)
        case "uniform":
            weights = np.ones_like(x)
    return normalize(weights)


def rating_kernel(rating: float, ratings: ArrayLike, sigma: float = 200.0) -> FloatArray:
    """Return weights of opponents by closeness of rating (Gaussian kernel).

        w_j proportional to exp(-(r - r_j)^2 / (2 sigma^2))

    Computed relative to the nearest opponent in log space, so that a pool thousands of points away does not underflow.

    Args:
        rating: The learner's rating in points.
        ratings: (K,) opponents' ratings in points.
        sigma: Width of the kernel in points, > 0.

    Returns:
        (K,) weights that sum to 1. Empty for an empty pool.

    Raises:
        ValueError: A rating is not finite or sigma is not above 0.
    """
    opponents = finite_column("ratings", ratings)
    if not np.isfinite(rating):
        raise ValueError(f"rating is {rating}: it must be finite")
    require_sigma("sigma", sigma)
    with np.errstate(over="ignore"):  # a tiny sigma overflows, and the minimum cuts infinity off
        distance = np.minimum(np.abs(opponents - rating) / sigma, _DISTANCE_MAX)
    nearest = distance.min(initial=_DISTANCE_MAX)
    # d^2 - d_min^2 as a product: the difference of two large squares would lose all digits.
    return normalize(np.exp(-0.5 * (distance - nearest) * (distance + nearest)))


def normalize(weights: FloatArray) -> FloatArray:
    """Scale weights to a sum of 1; uniform if they sum to less than `WEIGHT_FLOOR`."""
    total = float(weights.sum())
    if total < WEIGHT_FLOOR:
        return np.full(weights.size, 1.0 / max(weights.size, 1))
    return weights / total


def _require_weighting(weighting: str, known: tuple[str, ...]) -> None:
    if weighting not in known:
        raise ValueError(f"weighting is {weighting!r}: choose one of {', '.join(known)}")


def require_power(power: float) -> None:
    """Validate the exponent of the weighting "hard"."""
    if not 0.0 <= power < np.inf:
        raise ValueError(f"power is {power}: it must be finite and 0 or more; 2 is typical")


def require_share(name: str, share: float) -> None:
    """Validate a share or win rate."""
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{name} is {share}: it must be in [0, 1]")


def require_sigma(name: str, sigma: float) -> None:
    """Validate the width of the skill kernel."""
    if not 0.0 < sigma < np.inf:
        raise ValueError(f"{name} is {sigma}: it must be finite and above 0; 200 is typical")
