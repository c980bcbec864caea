"""Settings of the fit of the whole history; they load without the numerics of `arena.ratings.bradley_terry`."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class RefitConfig:
    """When and how the whole history is fitted.

    Attributes:
        enabled: Whether the whole history of the frozen players is fitted at periods' ends.
        growth: A fit is due when a snapshot's games have grown by this share since the last one, >= 0; at 0 after
            every period with a new rating match.
        prior_deviation: Standard deviation, before any game, of the strength of a player without a parent around
            1500, in points, > 0.
        parent_draws: Virtual draws of child and parent that a step is worth before any is known, > 0; 2 to 4 are
            usual, 3 mean a standard deviation of 200 points.
        parent_weight: How many steps that counts as beside those of the lineages, > 0.
        pair_correlation: Whether to learn how much the games of a pair are alike beyond what strengths explain.

    Raises:
        ValueError: A value is out of its range.
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
