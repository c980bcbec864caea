"""Rules in which presets differ. Torch- and Warp-free."""

from dataclasses import dataclass

from arena.environments.mech.config.constants import ZONE_GOAL_SHARE
from arena.environments.mech.config.weapons import Weapon


@dataclass(frozen=True)
class MechRules:
    """Rules of a composition; the defaults are those of `mech-duel`, `mech-pack` and `mech-company`.

    Attributes:
        hp_factor: Factor of the hit points of all classes, body and legs.
        weapons: Weapons that replace those of the same name.
        loadouts: Weapons with their triggers by name of the class, where they are not those of LOADOUTS. Every mech has
            smoke as well.
        zone_goal_share: Share of the time limit that a side must score to win by zone.
        zone_breaks_ties: Whether zone seconds decide a match in which the last mechs of both sides fall at once.
        speed_spread: Largest angle in radians by which a shot misses its aim, for every m/s of the shooter's speed.
        heat_spread: The same at full heat, in proportion to the shooter's heat.
    """

    hp_factor: float = 1.0
    weapons: tuple[Weapon, ...] = ()
    loadouts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    zone_goal_share: float = ZONE_GOAL_SHARE
    zone_breaks_ties: bool = False
    speed_spread: float = 0.0
    heat_spread: float = 0.0


STANDARD_RULES = MechRules()
