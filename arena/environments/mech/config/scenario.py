"""Compositions: the presets, and any other teams and maps. Torch- and Warp-free."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from arena.environments.mech.config.chassis import CLASSES, MechClass
from arena.environments.mech.config.constants import (
    DECISION_S,
    SPAWN_COLUMNS,
    SPAWN_DISTANCE_RANGE,
    SPAWN_JITTER,
    SPAWN_PITCH,
    TICK_S,
    ZONE_RADIUS,
    ZONE_RADIUS_RANGE,
)
from arena.environments.mech.config.rules import STANDARD_RULES, Build, MechRules
from arena.environments.mech.config.weapons import (
    AUTOCANNON,
    FLAMER,
    GAUSS,
    LASER,
    LOADOUTS,
    MISSILE,
    SMOKE,
    WEAPON_TRIGGERS,
    WEAPONS,
    Weapon,
)
from arena.errors import ArenaError

MAX_CONTACTS = 20
MAX_TEAM = 32
MAP_SIDE_RANGE = (40, 200)
_WEAPON_NAMES = tuple(weapon.name for weapon in WEAPONS)
_WEAPON_NUMBERS = ("range", "damage", "shake", "heat", "target_heat", "cooldown_s", "splash_radius", "splash_scale")
"""Fields of a weapon that rules can change; kernels and scripts have compiled in the others."""


class Terrain(StrEnum):
    """Kind of terrain."""

    OPEN = "open"
    BROKEN = "broken"


class ObservationMode(StrEnum):
    """Whether mechs must see to know."""

    PARTIAL = "partial"
    FULL = "full"


class CompositionError(ArenaError):
    """A composition that cannot be played."""

    code = "invalid-composition"


@dataclass(frozen=True)
class MechConfig:
    """One composition: the same team on both sides.

    Attributes:
        name: Name of the environment.
        packs: Names of the classes in every pack of a side. A pack shares paint, messages and the state of its mates.
        map_side: Edge of the map in metres, an even number.
        limit_s: Time limit in seconds; a whole number of decisions.
        terrain: Open ground, or hills, walls, water, lava, debris, foliage and glass.
        observation_mode: Partial: limited by sensors and sight. Full: all living mechs are observed exactly.
        rules: Rules in which this composition differs from others.

    Raises:
        CompositionError: A class is unknown, or the teams do not fit the map; the message contains valid values.
    """

    name: str
    packs: tuple[tuple[str, ...], ...]
    map_side: int
    limit_s: float
    terrain: Terrain = Terrain.BROKEN
    observation_mode: ObservationMode = ObservationMode.PARTIAL
    rules: MechRules = STANDARD_RULES

    def __post_init__(self) -> None:
        self._require_teams()
        for field, known in (("terrain", Terrain), ("observation_mode", ObservationMode)):
            self._require_member(field, known)
        self._require_room()
        self._require_rules()

    def _require_teams(self) -> None:
        for pack in self.packs:
            for name in pack:
                if name not in CLASSES:
                    raise CompositionError(f"{self.name}: unknown mech class {name!r}: choose of {', '.join(CLASSES)}")
        size = sum(len(pack) for pack in self.packs)
        if not 1 <= size <= MAX_TEAM or not all(self.packs):
            raise CompositionError(
                f"{self.name}: packs of {[len(pack) for pack in self.packs]} mechs: give packs of at least one mech, "
                f"1 to {MAX_TEAM} a side"
            )

    def _require_member(self, field: str, known: type[StrEnum]) -> None:
        value = getattr(self, field)
        if not isinstance(value, known):
            members = ", ".join(f"{known.__name__}.{each.name}" for each in known)
            raise CompositionError(f"{self.name}: {field} {value!r}: give one of {members}")

    def _require_room(self) -> None:
        low, high = MAP_SIDE_RANGE
        if not isinstance(self.map_side, int) or self.map_side % 2 or not low <= self.map_side <= high:
            raise CompositionError(
                f"{self.name}: map_side {self.map_side!r}: give an even number of metres from {low} to {high}"
            )
        decisions = self.limit_s / DECISION_S
        if not 1 <= decisions < math.inf or abs(decisions - round(decisions)) > 1e-9:
            raise CompositionError(f"{self.name}: limit_s {self.limit_s}: give a positive multiple of {DECISION_S} s")
        needed = self._needed_side()
        if self.map_side < needed:
            raise CompositionError(
                f"{self.name}: {len(self.team)} mechs a side do not fit a map of {self.map_side} m: give map_side "
                f"{needed} or more, or smaller teams"
            )

    def _require_rules(self) -> None:
        rules = self.rules
        for field in ("hp_factor", "zone_goal_share", "recognition_range", "speed_spread", "heat_spread"):
            value, may_be_zero = getattr(rules, field), field.endswith("spread")
            if not (0.0 < value < math.inf or (may_be_zero and value == 0.0)):
                rule = "a number of at least 0" if may_be_zero else "a positive number"
                raise CompositionError(f"{self.name}: rules.{field} {value}: give {rule}")
        for weapon in rules.weapons:
            self._require_weapon(weapon)
        for mech, builds in rules.builds:
            if mech not in CLASSES:
                raise CompositionError(f"{self.name}: rules.builds of {mech!r}: choose of {', '.join(CLASSES)}")
            for build in builds:
                self._require_build(mech, build)
        counts = {mech.name: len(self.builds_of(mech.name)) for mech in self.team}
        if len(set(counts.values())) != 1 or not min(counts.values()):
            raise CompositionError(f"{self.name}: rules.builds {counts}: give every class of the team equally many")

    def _require_weapon(self, weapon: Weapon) -> None:
        where = f"{self.name}: rules.weapons {weapon.name!r}"
        standard = {each.name: each for each in WEAPONS}.get(weapon.name)
        if standard is None:
            raise CompositionError(f"{where}: give one of {', '.join(_WEAPON_NAMES)}")
        for field in _WEAPON_NUMBERS:
            value = getattr(weapon, field)
            if not 0.0 <= value < math.inf:
                raise CompositionError(f"{where}: {field} {value}: give a number of at least 0")
        if weapon.cooldown_ticks < 1:
            raise CompositionError(f"{where}: cooldown_s {weapon.cooldown_s}: give at least {TICK_S}")
        unchanged = {field: getattr(weapon, field) for field in _WEAPON_NUMBERS}
        if replace(standard, **unchanged) != weapon:
            raise CompositionError(f"{where}: only {', '.join(_WEAPON_NUMBERS)} can differ from the standard weapon")

    def _require_build(self, mech: str, build: Build) -> None:
        where = f"{self.name}: rules.builds of {mech!r}: {build.name!r}"
        for field in ("hp_factor", "speed_factor"):
            if not 0.0 < getattr(build, field) < math.inf:
                raise CompositionError(f"{where}: {field} {getattr(build, field)}: give a positive number")
        for weapon, trigger in build.weapons:
            if weapon not in _WEAPON_NAMES:
                raise CompositionError(f"{where}: weapon {weapon!r}: give one of {', '.join(_WEAPON_NAMES)}")
            if trigger not in WEAPON_TRIGGERS:
                raise CompositionError(
                    f"{where}: trigger {trigger!r} of {weapon}: give one of {', '.join(WEAPON_TRIGGERS)}"
                )

    def _needed_side(self) -> int:
        """Smallest map that contains the outermost formation and keeps the innermost one outside the largest zone."""
        rows = math.ceil(len(self.team) / SPAWN_COLUMNS)
        columns = min(len(self.team), SPAWN_COLUMNS)
        widest = max(mech.width for mech in self.team)
        half_depth = 0.5 * (rows - 1) * SPAWN_PITCH + SPAWN_JITTER + 0.5 * widest
        half_width = 0.5 * (columns - 1) * SPAWN_PITCH + SPAWN_JITTER + 0.5 * widest
        nearest, farthest = SPAWN_DISTANCE_RANGE
        outside_zone = (ZONE_RADIUS * ZONE_RADIUS_RANGE[1] + half_depth) / nearest
        half = outside_zone
        while math.hypot(farthest * half + half_depth, half_width) > half:
            half += 1.0
        return 2 * math.ceil(half)

    @property
    def team(self) -> tuple[MechClass, ...]:
        """Class of every mech of a side, pack by pack."""
        return tuple(self._class_of(name) for pack in self.packs for name in pack)

    def _class_of(self, name: str) -> MechClass:
        mech, factor = CLASSES[name], self.rules.hp_factor
        return replace(mech, hp=factor * mech.hp, leg_hp=factor * mech.leg_hp)

    @property
    def weapons(self) -> tuple[Weapon, ...]:
        """All weapons with a target, in the order of WEAPONS."""
        replaced = {weapon.name: weapon for weapon in self.rules.weapons}
        return tuple(replaced.get(weapon.name, weapon) for weapon in WEAPONS)

    @property
    def builds(self) -> int:
        """Number of builds that every mech can choose from."""
        return max(len(self.builds_of(mech.name)) for mech in self.team)

    def builds_of(self, mech: str) -> tuple[Build, ...]:
        """Return the builds of a class."""
        standard = tuple((name, trigger) for name, trigger in LOADOUTS[mech].items() if name != SMOKE.name)
        return dict(self.rules.builds).get(mech, (Build("standard", standard),))

    def loadout(self, mech: str, build: int) -> Mapping[str, str]:
        """Return the weapons of a build of a class, and smoke, with their triggers."""
        builds = self.builds_of(mech)
        # Tables of scripted players have all classes; those outside the team may have fewer builds.
        return {**dict(builds[min(build, len(builds) - 1)].weapons), SMOKE.name: "special"}

    def weapons_of(self, mech: str) -> dict[str, set[str]]:
        """Return the weapons of all builds of a class, and smoke, with their triggers."""
        found: dict[str, set[str]] = {}
        for build in range(self.builds):
            for name, trigger in self.loadout(mech, build).items():
                found.setdefault(name, set()).add(trigger)
        return found

    def with_build(self, mech: MechClass, build: int) -> MechClass:
        """Return a class of the team with one of its builds."""
        own = self.builds_of(mech.name)[build]
        return replace(
            mech,
            hp=own.hp_factor * mech.hp,
            leg_hp=own.hp_factor * mech.leg_hp,
            max_speed=own.speed_factor * mech.max_speed,
        )

    @property
    def pack_of(self) -> tuple[int, ...]:
        """Pack of every mech of a side."""
        return tuple(index for index, pack in enumerate(self.packs) for _ in pack)

    @property
    def mates(self) -> int:
        """Number of mate slots: pack mates of a mech in the largest pack."""
        return max(len(pack) for pack in self.packs) - 1

    @property
    def contacts(self) -> int:
        """Number of contact slots: one for each mech outside the own pack, up to MAX_CONTACTS."""
        others = 2 * len(self.team) - min(len(pack) for pack in self.packs)
        return min(others, MAX_CONTACTS)

    @property
    def max_decisions(self) -> int:
        """Decisions until time is up."""
        return round(self.limit_s / DECISION_S)

    @property
    def zone_goal_s(self) -> float:
        """Zone seconds that win."""
        return self.rules.zone_goal_share * self.limit_s


PACK = ("heavy", "medium", "medium", "light", "scout")

BUILDS = (
    Build("brawler", (("laser", "primary"), ("flamer", "tertiary")), speed_factor=0.85),
    Build("skirmisher", (("laser", "primary"), ("autocannon", "tertiary")), hp_factor=1.05, speed_factor=1.25),
    Build("sniper", (("missile", "secondary"), ("gauss", "tertiary")), hp_factor=0.95),
)
"""Builds of the medium of `mech-duel-2`."""

LONG_DUEL = MechRules(
    hp_factor=3.5,
    weapons=(
        replace(LASER, damage=15.0, cooldown_s=0.7),
        replace(FLAMER, damage=5.0, heat=6.0, target_heat=2.0, cooldown_s=0.2),
        replace(MISSILE, damage=50.0, splash_radius=5.0, splash_scale=0.8),
        replace(GAUSS, damage=52.0, shake=30.0, cooldown_s=3.0),
        replace(AUTOCANNON, damage=6.0, shake=3.0),
    ),
    builds=(("medium", BUILDS),),
    zone_goal_share=0.18,
    zone_breaks_ties=True,
    speed_spread=0.025,
    heat_spread=0.1,
)
"""Rules of `mech-duel-2`: a choice between builds, and matches in which heat, distance and the zone matter.

Moving and hot shooters aim worse, and a missile that hits nearby hurts its shooter too.
"""

PRESETS = {
    config.name: config
    for config in (
        MechConfig("mech-duel", (("medium",),), map_side=40, limit_s=60.0, terrain=Terrain.OPEN),
        MechConfig("mech-duel-2", (("medium",),), map_side=40, limit_s=60.0, terrain=Terrain.OPEN, rules=LONG_DUEL),
        MechConfig("mech-pack", (PACK,), map_side=60, limit_s=60.0),
        MechConfig("mech-company", (PACK, PACK), map_side=100, limit_s=125.0),
    )
}
