"""What a learner has forgotten: whom it used to beat more often than it does now, beyond what chance explains."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from arena.arrays import BoolArray, FloatArray
from arena.evaluation import statistics as discoveries
from arena.evaluation.payoff import WinCounts, beta_moments, wilson_interval

SIGNIFICANCE = 0.05
"""Share of opponents called forgotten that may not be."""

ALARM_SIGNIFICANCE = 0.001
"""The same of alarms: whoever looks after every period looks hundreds of times, and each match is looked at often."""


@dataclass(frozen=True, eq=False)
class Forgetting:
    """How a learner's results against K opponents changed.

    Attributes:
        drop: (K,) fall of the estimated win rate, in [-1, 1]; below 0 where the learner improved.
        p_value: (K,) probability of such a fall or a larger one where nothing was forgotten, adjusted for all
            opponents; 1 where one of the two times has no games.
        forgotten: (K,) true where that is too little to be chance.
    """

    drop: FloatArray
    p_value: FloatArray
    forgotten: BoolArray

    @property
    def weights(self) -> FloatArray:
        """(K,) the fall where something was forgotten, else 0."""
        return np.where(self.forgotten, self.drop, 0.0)


def forgetting(
    earlier: WinCounts, recent: WinCounts, *, margin: float = 0.0, significance: float = SIGNIFICANCE
) -> Forgetting:
    """Compare what a learner scored at two times.

    A win rate is known as a Beta distribution of its points and one more of each kind; the difference of two is taken
    for normal. The p-values are adjusted after Benjamini and Hochberg: with a hundred opponents five would seem
    forgotten by chance.

    The two times must be chosen without looking at the results. The best of many earlier times was lucky, and what
    follows it looks like forgetting.

    Args:
        earlier: (K,) counts of the earlier games.
        recent: (K,) counts of the recent games, none of them among the earlier ones.
        margin: Fall of the win rate that is not worth mentioning, in [0, 1).
        significance: Share of mistakes among those called forgotten, in (0, 1).

    Raises:
        ValueError: The counts differ in shape, or margin or significance is out of range.
    """
    if earlier.games.shape != recent.games.shape or earlier.games.ndim != 1:
        raise ValueError(
            f"earlier has shape {earlier.games.shape}, recent {recent.games.shape}: pass one count per opponent in each"
        )
    if not 0.0 <= margin < 1.0:
        raise ValueError(f"margin is {margin}: it must be in [0, 1)")
    if not 0.0 < significance < 1.0:
        raise ValueError(f"significance is {significance}: it must be in (0, 1); 0.05 is usual")
    before, before_variance = beta_moments(earlier)
    now, now_variance = beta_moments(recent)
    drop = before - now
    met = (earlier.games > 0.0) & (recent.games > 0.0)
    p_value = np.ones_like(drop)
    if met.any():
        by_chance = ndtr((margin - drop) / np.sqrt(before_variance + now_variance))
        p_value[met] = discoveries.benjamini_hochberg(by_chance[met])
    return Forgetting(drop=drop, p_value=p_value, forgotten=p_value < significance)


def regressions(earlier: WinCounts, recent: WinCounts, *, significance: float = ALARM_SIGNIFICANCE) -> BoolArray:
    """Find the opponents that a learner used to beat and now loses to.

    The 95 % interval of its win rate was above a half and is below a half, and the fall is one that `forgetting` finds.
    Of a learner that stays even with all of 60 or 200 opponents, a look at its last 20,000 games after every 500 raises
    about one false alarm in 500,000 games; at a significance of 0.05 it would raise 20 to 30. A fall from 0.65 to 0.35
    is found as soon as then, after 130 games against that opponent.

    Args:
        earlier: (K,) counts of the earlier games.
        recent: (K,) counts of the recent games, none of them among the earlier ones.
        significance: As for `forgetting`.

    Returns:
        (K,) true for such opponents.

    Raises:
        ValueError: As `forgetting` does.
    """
    fell = forgetting(earlier, recent, significance=significance).forgotten
    beat, _ = wilson_interval(earlier)
    _, loses = wilson_interval(recent)
    return np.asarray(fell & (beat > 0.5) & (loses < 0.5))
