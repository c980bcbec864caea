"""Settings of the whole-history fit, importable without the numerics of `arena.ratings.bradley_terry`."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class RefitConfig:
    """Settings of the whole-history fit.

    Attributes:
        enabled: Whether to fit the whole history of the frozen players at the end of periods.
        growth: Refit once a snapshot's games have grown by this share since the last fit, >= 0. With 0, refit after
            every period that has a new rating match.
        prior_deviation: Prior standard deviation around 1500 of a player without a parent, in points, > 0.
        parent_draws: Virtual draws between child and parent that define the initial step variance, > 0. Typical values
            are 2 to 4; 3 corresponds to a standard deviation of 200 points.
        parent_weight: Weight of that prior in numbers of steps, > 0.
        pair_correlation: Whether to estimate the correlation between the games of a pair.

    Raises:
        ValueError: A value is out of range.
    """

    enabled: bool = True
    growth: float = 0.2
    prior_deviation: float = 2000.0
    parent_draws: float = 3.0
    parent_weight: float = 4.0
    pair_correlation: bool = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.growth < math.inf:
            raise ValueError(f"growth is {self.growth}: it must be finite and 0 or more; 0.2 is typical")
        if not 0.0 < self.prior_deviation < math.inf:
            raise ValueError(
                f"prior_deviation is {self.prior_deviation}: it must be finite and above 0; 2000 is typical"
            )
        if not 0.0 < self.parent_draws < math.inf:
            raise ValueError(f"parent_draws is {self.parent_draws}: it must be finite and above 0; 3 is typical")
        if not 0.0 < self.parent_weight < math.inf:
            raise ValueError(f"parent_weight is {self.parent_weight}: it must be finite and above 0; 4 is typical")
