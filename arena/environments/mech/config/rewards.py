"""What a mech earns, by named components. Torch- and Warp-free."""

from dataclasses import dataclass

COMPONENTS = ("zone", "approach", "damage", "hurt", "kill", "assist", "death", "paint", "win")


@dataclass(frozen=True)
class RewardWeights:
    """Weight of every reward component, the discount that shaping must share with training, and who shares.

    Per agent and decision, before the weight:

        zone      (s_own - s_enemy) / goal: share of the zone goal by which the own side got ahead
        approach  gamma f' - f, where f in [0, 1] is how near the zone is on foot; f' = 0 when the match is over or
                  the mech is destroyed
        damage    hit points dealt to enemies / 100
        hurt      -(hit points taken, from anybody and the ground) / 100
        kill      share of the killing damage, of enemies
        assist    share of the killing damage that pack mates dealt to an enemy while this mech's paint was on it
        death     -1 when destroyed
        paint     enemies newly painted, -1 when newly painted oneself
        win       +1, 0 or -1 when the match is over

    Damage to the own side and to oneself costs whoever takes it and pays nobody. What `zone` and `win` pay one side's
    agents they cost the other's; `kill` with `death`, and `paint`, sum to at most zero over everybody; an assist comes
    on top of the kill. Dealing damage pays twice what taking as much costs: beginners come to fight sooner. Who was
    destroyed before the decision earns nothing in it. Standing still never earns by `approach`: (gamma - 1) f <= 0. Who
    leads for a whole match earns at most 1 for the zone: less than the win, which pays sooner the sooner it comes.

    Attributes:
        own_share: Alpha. An agent's reward is alpha times its own plus (1 - alpha) times the mean of its side, over
            those who were alive when the decision began.
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
