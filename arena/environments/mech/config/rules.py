"""Rules in which presets differ. Torch- and Warp-free."""

from dataclasses import dataclass

from arena.environments.mech.config.constants import ZONE_GOAL_SHARE
from arena.environments.mech.config.weapons import Weapon


@dataclass(frozen=True)
class Build:
    """One way to equip a class. Every mech has smoke as well.

    Attributes:
        name: Name of the build.
        weapons: Names of its weapons with their triggers.
        hp_factor: Factor of the hit points of body and legs.
        speed_factor: Factor of the maximum speed.
    """

    name: str
    weapons: tuple[tuple[str, str], ...]
    hp_factor: float = 1.0
    speed_factor: float = 1.0


@dataclass(frozen=True)
class MechRules:
    """Rules of a composition; the defaults are those of `mech-duel`, `mech-pack` and `mech-company`.

    Attributes:
        hp_factor: Factor of the hit points of all classes, body and legs.
        weapons: Weapons that replace those of the same name.
        builds: Builds by name of the class; a class without any has one with the weapons of LOADOUTS. If there are
            several, mechs choose theirs in their first decision.
        recognition_range: Largest distance in metres at which a clear sight shows the build of an enemy.
        zone_goal_share: Share of the time limit that a side must score to win by zone.
        zone_breaks_ties: Whether zone seconds decide a match in which the last mechs of both sides fall at once.
        speed_spread: Largest angle in radians by which a shot misses its aim, for every m/s of the shooter's speed.
        heat_spread: The same at full heat, in proportion to the shooter's heat.
    """

    hp_factor: float = 1.0
    weapons: tuple[Weapon, ...] = ()
    builds: tuple[tuple[str, tuple[Build, ...]], ...] = ()
    recognition_range: float = 20.0
    zone_goal_share: float = ZONE_GOAL_SHARE
    zone_breaks_ties: bool = False
    speed_spread: float = 0.0
    heat_spread: float = 0.0


STANDARD_RULES = MechRules()
