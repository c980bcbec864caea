"""Rules in which presets differ. Torch- and Warp-free."""

from dataclasses import dataclass

from arena.environments.mech.config.constants import ZONE_GOAL_SHARE


@dataclass(frozen=True)
class MechRules:
    """Rules of a composition; the defaults are those of `mech-duel`, `mech-pack` and `mech-company`.

    Attributes:
        hp_factor: Factor of the hit points of all classes, body and legs.
        damage: Damage of a direct hit by name of the weapon, where it is not the weapon's own.
        zone_goal_share: Share of the time limit that a side must score to win by zone.
        zone_breaks_ties: Whether zone seconds decide a match in which the last mechs of both sides fall at once.
        speed_spread: Largest angle in radians by which a shot misses its aim, for every m/s of the shooter's speed.
        heat_spread: The same at full heat, in proportion to the shooter's heat.
    """

    hp_factor: float = 1.0
    damage: tuple[tuple[str, float], ...] = ()
    zone_goal_share: float = ZONE_GOAL_SHARE
    zone_breaks_ties: bool = False
    speed_spread: float = 0.0
    heat_spread: float = 0.0


STANDARD_RULES = MechRules()
