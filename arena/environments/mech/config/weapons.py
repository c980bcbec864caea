"""The seven weapons, the classes that carry them and their triggers. Torch- and Warp-free.

Lengths are in metres, times in seconds, angles in radians.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from arena.environments.mech.config.constants import TICK_S

TRIGGERS = ("primary", "vent", "secondary", "tertiary", "special")
"""Switches of the head `trigger`."""

WEAPON_TRIGGERS = ("primary", "secondary", "tertiary")
"""Triggers that fire weapons with a target."""

TIMERS = ("laser", "missile", "kinetic", "painter")
"""Cooldown timers; weapons that share a timer share the cooldown."""


class Guidance(StrEnum):
    """Flight of a shell."""

    HITSCAN = "hitscan"
    STRAIGHT = "straight"
    BALLISTIC = "ballistic"
    HOMING = "homing"


@dataclass(frozen=True)
class Weapon:
    """One weapon.

    Attributes:
        name: Name of the weapon.
        range: Largest distance to a target, or reach of a shell.
        heat: Heat added to the shooter.
        cooldown_s: Time between two shots.
        timer: Its cooldown timer, one of TIMERS.
        half_arc_rad: Largest angle between heading and target.
        damage: Hit points lost by a direct hit.
        shake: Stability lost by a direct hit.
        target_heat: Heat added to the target.
        speed: Speed of its shell; 0 if the hit is instant.
        guidance: Flight of its shell.
        splash_radius: Radius of the splash around the hit; 0 without splash.
        splash_scale: Share of damage and shake at the centre of the splash; it falls linearly to 0.
    """

    name: str
    range: float
    heat: float
    cooldown_s: float
    timer: str
    half_arc_rad: float
    damage: float = 0.0
    shake: float = 0.0
    target_heat: float = 0.0
    speed: float = 0.0
    guidance: Guidance = Guidance.HITSCAN
    splash_radius: float = 0.0
    splash_scale: float = 0.0

    @property
    def cooldown_ticks(self) -> int:
        """Ticks between two shots."""
        return round(self.cooldown_s / TICK_S)


def _half(degrees: float) -> float:
    return math.radians(degrees / 2.0)


LASER = Weapon(
    "laser",
    range=8.0,
    damage=14.0,
    heat=22.0,
    target_heat=6.0,
    cooldown_s=0.6,
    timer="laser",
    half_arc_rad=_half(120.0),
)
FLAMER = Weapon(
    "flamer",
    range=4.5,
    damage=4.0,
    heat=10.0,
    target_heat=15.0,
    cooldown_s=0.15,
    timer="kinetic",
    half_arc_rad=_half(90.0),
)
MISSILE = Weapon(
    "missile",
    range=50.0,
    damage=40.0,
    shake=15.0,
    heat=45.0,
    cooldown_s=3.0,
    timer="missile",
    half_arc_rad=_half(180.0),
    speed=12.0,
    guidance=Guidance.HOMING,
    splash_radius=2.5,
    splash_scale=0.5,
)
GAUSS = Weapon(
    "gauss",
    range=20.0,
    damage=50.0,
    shake=60.0,
    heat=15.0,
    cooldown_s=4.0,
    timer="kinetic",
    half_arc_rad=_half(60.0),
    speed=40.0,
    guidance=Guidance.BALLISTIC,
    splash_radius=1.5,
    splash_scale=0.5,
)
AUTOCANNON = Weapon(
    "autocannon",
    range=12.0,
    damage=8.0,
    shake=5.0,
    heat=6.0,
    cooldown_s=0.2,
    timer="kinetic",
    half_arc_rad=_half(90.0),
    speed=25.0,
    guidance=Guidance.STRAIGHT,
)
PAINTER = Weapon(
    "painter",
    range=10.0,
    heat=5.0,
    cooldown_s=1.0,
    timer="painter",
    half_arc_rad=_half(60.0),
)
SMOKE = Weapon(
    "smoke",
    range=20.0,
    heat=10.0,
    cooldown_s=5.0,
    timer="missile",
    half_arc_rad=_half(180.0),
    guidance=Guidance.STRAIGHT,
)

WEAPONS = (LASER, FLAMER, MISSILE, GAUSS, AUTOCANNON, PAINTER)
"""Weapons with a target; smoke has none."""

LOADOUTS: dict[str, dict[str, str]] = {
    "scout": {"painter": "primary", "smoke": "special"},
    "light": {"flamer": "primary", "laser": "secondary", "painter": "tertiary", "smoke": "special"},
    "medium": {"laser": "primary", "autocannon": "tertiary", "painter": "tertiary", "smoke": "special"},
    "heavy": {"laser": "primary", "missile": "secondary", "gauss": "tertiary", "smoke": "special"},
}
"""Class -> weapon -> trigger that fires it."""

SHELL_SLOTS = 3
"""Shells of one mech that can be in the air at once: three of the autocannon, or two missiles and one gauss slug."""
