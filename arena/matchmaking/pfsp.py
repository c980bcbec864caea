"""How useful a game against each opponent is: formulas of win rates and of ratings.

Source: Vinyals et al., "Grandmaster level in StarCraft II" (2019), methods, "Prioritized fictitious self-play".
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from arena.arrays import FloatArray, finite_column, share_column

WinRateWeighting = Literal["hard", "variance", "linear", "capped", "uniform"]

WEIGHT_FLOOR = 1e-10  # weights that sum to less say nothing: uniform instead

_DISTANCE_MAX = 1e150  # in sigmas; its square is finite


def pfsp_weights(win_rates: ArrayLike, weighting: WinRateWeighting = "hard", power: float = 2.0) -> FloatArray:
    """Weigh opponents by how useful a game against each is.

        hard      (1 - x)^power       who beats me
        variance  x (1 - x)           who is even with me
        linear    1 - x
        capped    min(0.5, 1 - x)     who beats me, all stronger ones alike
        uniform   1

    Equal win rates give uniform weights. Where the weights sum to less than 1e-10 (everybody is always beaten) they
    are uniform as well.

    Args:
        win_rates: (K,) probability x that the learner beats each opponent, in [0, 1].
        weighting: One of the names above.
        power: Exponent of "hard", >= 0; 0 is uniform, larger looks harder at the strongest.

    Returns:
        (K,) weights that sum to 1. An empty pool has no distribution and gives an empty array:
        `opponent_distribution` turns it into self-play.

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
    """Weigh opponents by closeness of rating.

        w_j proportional to exp(-(r - r_j)^2 / (2 sigma^2))

    Taken relative to the nearest opponent in log space, so that a pool thousands of points away still has weights.

    Args:
        rating: The learner's rating in points.
        ratings: (K,) opponents' ratings in points.
        sigma: Width of the kernel in points, > 0.

    Returns:
        (K,) weights that sum to 1; empty for an empty pool.

    Raises:
        ValueError: A rating is not finite or sigma is not above 0.
    """
    opponents = finite_column("ratings", ratings)
    if not np.isfinite(rating):
        raise ValueError(f"rating is {rating}: it must be finite")
    require_sigma("sigma", sigma)
    with np.errstate(over="ignore"):
        distance = np.minimum(np.abs(opponents - rating) / sigma, _DISTANCE_MAX)
    nearest = distance.min(initial=_DISTANCE_MAX)
    return normalize(np.exp(-0.5 * (distance - nearest) * (distance + nearest)))


def normalize(weights: FloatArray) -> FloatArray:
    """Scale weights to a sum of 1; uniform where they sum to less than `WEIGHT_FLOOR`."""
    total = float(weights.sum())
    if total < WEIGHT_FLOOR:
        return np.full(weights.size, 1.0 / max(weights.size, 1))
    return weights / total


def _require_weighting(weighting: str, known: tuple[str, ...]) -> None:
    if weighting not in known:
        raise ValueError(f"weighting is {weighting!r}: choose one of {', '.join(known)}")


def require_power(power: float) -> None:
    """Refuse an exponent of the weighting "hard" that is out of range."""
    if not 0.0 <= power < np.inf:
        raise ValueError(f"power is {power}: it must be finite and 0 or more; 2 is usual")


def require_share(name: str, share: float) -> None:
    """Refuse what is no share or win rate."""
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{name} is {share}: it lies in [0, 1]")


def require_sigma(name: str, sigma: float) -> None:
    """Refuse a width of the skill kernel that is out of range."""
    if not 0.0 < sigma < np.inf:
        raise ValueError(f"{name} is {sigma}: it must be finite and above 0; 200 is usual")
