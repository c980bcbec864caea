"""From which level on a symptom counts, for how long, and why. Pure and without torch.

Bands of healthy training: KL per update 0.001 to 0.02, clip fraction 0.02 to 0.3, policy loss 0.01 to 0.1 in size,
explained variance rising from 0 towards 1, entropy falling slowly.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Band:
    """When a symptom begins and ends. `trip` above `clear`: high is bad; below: low is bad.

    Attributes:
        trip: Level from which on it counts as bad.
        clear: Level from which on it counts as good again; in between nothing changes.
        updates: Updates in a row until it begins, and good ones until it ends.
        window: Updates that a level is taken over.
    """

    trip: float
    clear: float
    updates: int
    window: int = 1

    def bad(self, level: float) -> bool:
        """Whether the level is beyond `trip`."""
        return level >= self.trip if self.trip > self.clear else level <= self.trip

    def good(self, level: float) -> bool:
        """Whether the level is back at `clear`."""
        return level <= self.clear if self.trip > self.clear else level >= self.clear


@dataclass(frozen=True)
class Thresholds:
    """One band for each symptom, with its reason."""

    frozen_policy: Band = Band(1e-6, 1e-5, updates=10)
    """Learning takes 1,000 times more, and rest in a solved game 10 times; a policy cut off from its gradient shows
    1e-7, ratio 1 and no clipping."""
    entropy_collapsed: Band = Band(0.05, 0.1, updates=10)
    """Share of the opening's width that the widest head has left: at a twentieth it no longer tries anything."""
    always_at_kl_stop: Band = Band(0.9, 0.5, updates=1, window=20)
    """Share of updates cut short: now and then the stop does its work, always means that most data is thrown away."""
    critic_worse_than_mean: Band = Band(-0.05, -0.01, updates=20, window=10)
    """Median explained variance; 0 is the mean's, and a game without anything to predict stays there."""
    gradient_always_clipped: Band = Band(10.0, 5.0, updates=1, window=20)
    """Norm over its limit while all steps are clipped: up to some times the limit is common and harmless with Adam."""
    gradient_never_clipped: Band = Band(0.0, 0.01, updates=1, window=100)
    """Share of clipped steps: the limit guards against nothing, which is fine until an outlier comes."""
    gradient_vanishing: Band = Band(1e-4, 1e-3, updates=5)
    """Norm; healthy ones are 0.05 to 5. Adam's epsilon of 1e-5 begins to swallow what is smaller."""
    actions_saturated: Band = Band(0.5, 0.3, updates=5, window=5)
    """Share of one head's actions beyond 0.99: for half of them tanh passes 2 % of the gradient."""
    ratio_explosion: Band = Band(1e-3, 2e-4, updates=3)
    """Share of samples with a ratio over 5 or under 0.1; while updates stay close there are none."""
    head_starving: Band = Band(1e-3, 1e-2, updates=10)
    """One head's gradient over the largest head's: Adam evens out the head's own rows, not the shared trunk."""
    value_scale_drift: Band = Band(10.0, 5.0, updates=10, window=100)
    """Spread of returns or values against some 100 updates ago: the critic's units lag behind such a change."""
    batches_unstable: Band = Band(10.0, 5.0, updates=1, window=20)
    """Greatest spread of advantage, value or reward over the usual one: more than sampling explains."""
    opponents_too_easy: Band = Band(0.97, 0.93, updates=50)
    """Least win rate over all rated opponents: who never loses learns from nobody but itself."""
    opponents_too_hard: Band = Band(0.03, 0.07, updates=50)
    """Greatest win rate over all rated opponents: without a single win nothing tells better play from worse."""
    cycling: Band = Band(0.3, 0.2, updates=10)
    """Fall of a win rate from its best: four standard errors at the least number of matches."""
    not_finite: Band = Band(1.0, 0.5, updates=1, window=10)
    """Rejected updates among the last: one is one too many."""
    reward_dominated: Band = Band(1.0, 0.95, updates=20)
    """Greatest share of a component of the reward, in shares that it may have (health.component_share, 0.8): what else
    is paid hardly counts. The win has 0.35 in the mech arena, more than anything else."""
    solved: Band = Band(0.15, 0.3, updates=10, window=5)
    """Spread of advantages over that of the opening, at the best return: what is left is rare slips. While something is
    learned it stays above a half."""
