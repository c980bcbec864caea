"""Target selection and triggers of scripted players."""

import functools
import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.mech.config.chassis import CLASSES, MechClass
from arena.environments.mech.config.constants import (
    FOCUS_CONE_RAD,
    LOCK_QUALITY,
    MISSILE_SIGHT_RANGE,
    TICKS_PER_DECISION,
)
from arena.environments.mech.config.scenario import MechConfig
from arena.environments.mech.config.weapons import TRIGGERS, Guidance, Weapon
from arena.policies.mech.perception import Percept, length

VENT_ABOVE = 0.75
"""Share of the heat capacity above which scripted players vent."""

ORDER = ("tertiary", "secondary", "primary")
"""Triggers that fire at a target, in order of priority when heat is short: most damage per heat first."""

GUNS = (Guidance.STRAIGHT, Guidance.BALLISTIC)
"""Guidance of guns, which fire without a target too and are most accurate at the mech in focus."""

NOTHING_IN_RANGE = -1.0


class Target(NamedTuple):
    """Targets of R mechs.

    Attributes:
        slot: Contact slot. -1 without a target.
        way: Vector to the target, ahead and left. 0 without a target.
        distance: Length of that vector.
        known: Whether there is a target.
        visible: Whether the target is in sight.
    """

    slot: Int[Tensor, " R"]
    way: Float[Tensor, "2 R"]
    distance: Float[Tensor, " R"]
    known: Bool[Tensor, " R"]
    visible: Bool[Tensor, " R"]


def find_target(senses: Percept) -> Target:
    """Return the nearest enemy in sight, else the nearest known one."""
    visible, known = senses.hostile & senses.in_sight, senses.hostile[0]
    slot = known.long() - 1
    # Contacts are sorted by distance, so the last write is that of the nearest.
    for index in reversed(range(len(visible))):
        slot = slot.masked_fill(visible[index], index)
    clamped_slot = slot.clamp(min=0).unsqueeze(0)
    way = torch.cat([senses.ahead.gather(0, clamped_slot), senses.left.gather(0, clamped_slot)]) * known
    return Target(slot, way, length(way), known, visible.gather(0, clamped_slot)[0])


class HeatLimits(NamedTuple):
    """Limits of the heat of R mechs, or of all, as shares of the heat capacity.

    Attributes:
        fire: Highest heat that firing may lead to.
        vent: Heat above which they vent.
    """

    fire: float | Float[Tensor, " R"] = 1.0
    vent: float | Float[Tensor, " R"] = VENT_ABOVE


CAUTIOUS = HeatLimits()


def pull_triggers(
    on: "TriggerNumbers",
    senses: Percept,
    target: Target,
    mask: Bool[Tensor, "R triggers"],
    limits: HeatLimits = CAUTIOUS,
) -> Bool[Tensor, "R triggers"]:
    """Fire weapons that can hit without exceeding the heat limit; vent when hot."""
    wanted = _can_hit(senses, target, on)
    heat = senses.heat
    pulled = {"vent": heat > limits.vent, "special": torch.zeros_like(senses.in_zone)}
    for index, trigger in enumerate(ORDER):
        hotter = heat + on.heat_share[index]
        pulled[trigger] = wanted[index] & mask[:, TRIGGERS.index(trigger)] & (hotter <= limits.fire)
        heat = torch.where(pulled[trigger], hotter, heat)
    return torch.stack([pulled[trigger] for trigger in TRIGGERS], dim=-1)


class TriggerNumbers(NamedTuple):
    """Properties of the weapon on each trigger of ORDER, for R mechs; a negative range means no weapon.

    Attributes:
        range: Range.
        cosine: Cosine of the half angle around the heading in which it can target.
        locks: 1 if paint is as good as sight.
        focused: 1 if only the target counts.
        heat_share: Most heat of firing during one decision, as a share of the mech's heat capacity.
        speed: Speed of a gun's shell; 0 if the weapon is no gun.
    """

    range: Float[Tensor, "triggers R"]
    cosine: Float[Tensor, "triggers R"]
    locks: Float[Tensor, "triggers R"]
    focused: Float[Tensor, "triggers R"]
    heat_share: Float[Tensor, "triggers R"]
    speed: Float[Tensor, "triggers R"]


class Armament:
    """Weapons of a composition, as scripted players know them."""

    def __init__(self, config: MechConfig) -> None:
        # A column per build of every class; rows are the fields of TriggerNumbers, each for the triggers of ORDER.
        variants = [(mech, build) for mech in CLASSES.values() for build in range(config.builds)]
        numbers = [[_trigger_numbers(config, *variant, trigger) for trigger in ORDER] for variant in variants]
        self._table = torch.tensor(numbers).permute(2, 1, 0).flatten(0, 1).contiguous()

    def numbers(self, senses: Percept) -> TriggerNumbers:
        """Return the properties of every mech's weapons."""
        numbers = self._table.to(senses.variant.device).index_select(1, senses.variant)
        numbers = numbers.view(len(TriggerNumbers._fields), len(ORDER), -1)
        return TriggerNumbers(*numbers.unbind())


def _can_hit(senses: Percept, target: Target, on: TriggerNumbers) -> Bool[Tensor, "triggers R"]:
    """Return whether the weapon on each trigger has an enemy that it can hit."""
    slots = torch.arange(len(senses.hostile), device=target.slot.device).unsqueeze(-1)
    locks, focused = (flag.unsqueeze(1) > 0.5 for flag in (on.locks, on.focused))
    locked = senses.painted & (senses.quality >= LOCK_QUALITY)
    seen = (senses.in_sight & (~locks | (senses.distance <= MISSILE_SIGHT_RANGE))) | (locked & locks)
    considered = senses.hostile & ((slots == target.slot) | ~focused)
    in_range = senses.distance <= on.range.unsqueeze(1)
    in_arc = senses.ahead >= on.cosine.unsqueeze(1) * senses.distance
    return functools.reduce(torch.bitwise_or, (considered & seen & in_range & in_arc).unbind(dim=1))


def _weapons_on(config: MechConfig, mech: MechClass, build: int, trigger: str) -> list[Weapon]:
    """Return the weapons on a trigger, guns first, because they fire without a target too."""
    loadout = config.loadout(mech.name, build)
    weapons = [weapon for weapon in config.weapons if loadout.get(weapon.name) == trigger]
    return sorted(weapons, key=lambda weapon: weapon.guidance not in GUNS)


def _trigger_numbers(config: MechConfig, mech: MechClass, build: int, trigger: str) -> tuple[float, ...]:
    """Return the fields of TriggerNumbers."""
    weapons = _weapons_on(config, mech, build, trigger)
    if not weapons:
        return NOTHING_IN_RANGE, 0.0, 0.0, 0.0, 0.0, 0.0
    first, gun = weapons[0], weapons[0].guidance in GUNS
    shots = [math.ceil(TICKS_PER_DECISION / weapon.cooldown_ticks) for weapon in weapons]
    return (
        first.range,
        math.cos(FOCUS_CONE_RAD if gun else first.half_arc_rad),
        float(first.guidance is Guidance.HOMING),
        float(gun),
        sum(weapon.heat * count for weapon, count in zip(weapons, shots, strict=True)) / mech.heat_capacity,
        first.speed if gun else 0.0,
    )
