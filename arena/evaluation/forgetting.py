"""Forgetting: opponents against which a learner's win rate has fallen significantly."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from arena.arrays import BoolArray, FloatArray
from arena.evaluation import statistics as discoveries
from arena.evaluation.payoff import WinCounts, beta_moments, wilson_interval

SIGNIFICANCE = 0.05
"""False discovery rate of the forgotten opponents."""

ALARM_SIGNIFICANCE = 0.001
"""False discovery rate of alarms: a check after every period repeats the test hundreds of times on the same matches."""


@dataclass(frozen=True, eq=False)
class Forgetting:
    """Change of a learner's results against K opponents.

    Attributes:
        drop: (K,) fall of the estimated win rate, in [-1, 1]. Negative for an improvement.
        p_value: (K,) one-sided p-value of the fall, adjusted for all opponents. 1 without games in one of the two
            windows.
        forgotten: (K,) true if the fall is significant.
    """

    drop: FloatArray
    p_value: FloatArray
    forgotten: BoolArray

    @property
    def weights(self) -> FloatArray:
        """(K,) the fall for forgotten opponents, else 0."""
        return np.where(self.forgotten, self.drop, 0.0)


def forgetting(
    earlier: WinCounts, recent: WinCounts, *, margin: float = 0.0, significance: float = SIGNIFICANCE
) -> Forgetting:
    """Test for a fall of the win rate between two windows of games.

    The posterior of a win rate is Beta(points + 1, games - points + 1), and the difference of two is approximated as
    normal. The p-values are adjusted by Benjamini-Hochberg: among a hundred opponents, five would appear forgotten by
    chance.

    Choose the two windows without looking at the results. The best of many earlier windows was lucky, so regression to
    the mean looks like forgetting.

    Args:
        earlier: (K,) counts of the earlier games.
        recent: (K,) counts of the recent games, disjoint from the earlier ones.
        margin: Fall of the win rate to ignore, in [0, 1).
        significance: False discovery rate, in (0, 1).

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
        raise ValueError(f"significance is {significance}: it must be in (0, 1); 0.05 is typical")
    before, before_variance = beta_moments(earlier)
    now, now_variance = beta_moments(recent)
    drop = before - now
    played = (earlier.games > 0.0) & (recent.games > 0.0)
    p_value = np.ones_like(drop)
    if played.any():
        by_chance = ndtr((margin - drop) / np.sqrt(before_variance + now_variance))
        p_value[played] = discoveries.benjamini_hochberg(by_chance[played])
    return Forgetting(drop=drop, p_value=p_value, forgotten=p_value < significance)


def regressions(earlier: WinCounts, recent: WinCounts) -> BoolArray:
    """Find the opponents that a learner beat before and now loses to.

    The 95 % interval of the win rate was above 1/2, is now below 1/2, and `forgetting` finds the fall significant.

    For a learner that is even with all of 60 or 200 opponents, checking its last 20,000 games every 500 games raises
    about one false alarm in 500,000 games. At a significance of 0.05 it would raise 20 to 30. A fall from 0.65 to 0.35
    is found equally soon at both levels, after 130 games against that opponent.

    Args:
        earlier: (K,) counts of the earlier games.
        recent: (K,) counts of the recent games, disjoint from the earlier ones.

    Returns:
        (K,) true for such opponents.

    Raises:
        ValueError: As in `forgetting`.
    """
    fell = forgetting(earlier, recent, significance=ALARM_SIGNIFICANCE).forgotten
    beat, _ = wilson_interval(earlier)
    _, loses = wilson_interval(recent)
    return np.asarray(fell & (beat > 0.5) & (loses < 0.5))
