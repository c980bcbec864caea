"""Reward components of a mech. Torch- and Warp-free."""

from dataclasses import dataclass

COMPONENTS = ("zone", "approach", "damage", "hurt", "kill", "assist", "death", "paint", "win")


@dataclass(frozen=True)
class RewardWeights:
    """Weights of the reward components, the discount that shaping shares with training, and the share of own reward.

    Per agent and decision, before the weight:

        zone      (s_own - s_enemy) / goal: lead of the own side in this decision, as a share of the zone goal
        approach  gamma f' - f, where f in [0, 1] is how near the zone is on foot; f' = 0 when the match is over or
                  the mech is destroyed
        damage    hit points dealt to enemies / 100
        hurt      -(hit points taken, from any mech and the ground) / 100
        kill      share of the killing damage, of enemies
        assist    share of the killing damage that pack mates dealt to an enemy while this mech's paint was on it
        death     -1 when destroyed
        paint     enemies newly painted, -1 when newly painted oneself
        win       +1, 0 or -1 when the match is over

    Friendly fire and damage to oneself cost the victim and pay no mech. `zone` and `win` are zero-sum between the
    sides. `kill` with `death`, and `paint`, sum to at most zero over all mechs; an assist is paid in addition to the
    kill. Dealing damage pays twice as much as taking it costs, so that beginners learn to fight sooner. Mechs that were
    destroyed before the decision earn nothing in it. Standing still never earns by `approach`: (gamma - 1) f <= 0. A
    lead for a whole match earns at most 1 for the zone. That is less than the win, whose discounted value is higher the
    sooner it comes.

    Attributes:
        own_share: Alpha. An agent's reward is alpha times its own plus (1 - alpha) times the mean of its side, over the
            mechs that were alive when the decision began.
    """

    zone: float = 1.0
    approach: float = 1.0
    damage: float = 1.0
    hurt: float = 0.5
    kill: float = 0.5
    assist: float = 0.25
    death: float = 0.5
    paint: float = 0.02
    win: float = 2.0
    gamma: float = 0.995
    own_share: float = 0.7


_PRESET_WEIGHTS = {"mech-duel-2": RewardWeights(damage=2.0 / 7.0, hurt=1.0 / 7.0)}
"""Weights that differ from the defaults; here all hit points of a mech are worth as much as in `mech-duel`."""


def preset_weights(preset: str) -> RewardWeights:
    """Return the reward weights of a preset."""
    return _PRESET_WEIGHTS.get(preset, RewardWeights())
