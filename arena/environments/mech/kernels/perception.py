"""Stage observe: what every mech perceives, and which actions matter."""

import itertools
from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import in_zone, to_frame
from arena.environments.mech.kernels.movement import FORWARD, GUN, LASER, STRAFE, VENT, YAW
from arena.environments.mech.kernels.state import Field, Hulls, State, View
from arena.environments.mech.rules import (
    AUTOCANNON,
    CONTACT_FEATURES,
    CONTACT_SPEED,
    CRITICAL_HEAT,
    EGO_BLOCKS,
    TICK_S,
    TICKS_PER_DECISION,
)
from arena.environments.mech.rules import LASER as LASER_WEAPON

wp.set_module_options(MODULE_OPTIONS)

CONDITION, HEAT, MOTION, ZONE, SCORE, CONTACTS = itertools.accumulate((block.size for block in EGO_BLOCKS), initial=0)
"""First column of every block, in the order of `observation_blocks`."""

FEATURES = len(CONTACT_FEATURES)


@wp.func
@no_type_check
def flag(condition: bool) -> float:
    """1 for true, 0 for false."""
    return wp.where(condition, 1.0, 0.0)


@wp.func
@no_type_check
def shut_down(s: State, hulls: Hulls, e: int, i: int) -> bool:
    """Whether heat is over the capacity."""
    return s.heat[e, i] > hulls.heat_capacity[i]


@wp.func
@no_type_check
def heat_share(s: State, hulls: Hulls, e: int, i: int) -> float:
    """Heat over capacity, at most 2."""
    return wp.min(s.heat[e, i] / hulls.heat_capacity[i], 2.0)


@wp.func
@no_type_check
def write_ego(s: State, hulls: Hulls, field: Field, view: View, e: int, i: int) -> None:
    """Blocks condition, heat, motion, zone and score."""
    side = 2.0 * field.half_side
    heat = heat_share(s, hulls, e, i)
    view.values[e, i, CONDITION] = s.hp[e, i] / hulls.hp[i]
    view.values[e, i, CONDITION + 1] = flag(shut_down(s, hulls, e, i))
    view.values[e, i, CONDITION + 2] = flag(heat > CRITICAL_HEAT)
    view.values[e, i, CONDITION + 3] = flag(s.under_fire[e, i])
    view.values[e, i, CONDITION + 4] = float(s.laser_ticks[e, i]) / wp.static(float(LASER_WEAPON.cooldown_ticks))
    view.values[e, i, CONDITION + 5] = float(s.gun_ticks[e, i]) / wp.static(float(AUTOCANNON.cooldown_ticks))
    view.values[e, i, CONDITION + 6] = flag(in_zone(s, e, i))
    view.values[e, i, HEAT] = heat
    motion = to_frame(s.velocity[e, i], s.heading[e, i]) / hulls.max_speed[i]
    centre = to_frame(-s.position[e, i], s.heading[e, i]) / side
    for axis in range(2):
        view.values[e, i, MOTION + axis] = motion[axis]
        view.values[e, i, ZONE + axis] = centre[axis]
    view.values[e, i, ZONE + 2] = s.zone_radius[e] / side
    own = hulls.side[i]
    view.values[e, i, SCORE] = wp.min(s.zone_s[e, own] / field.zone_goal_s, 1.0)
    view.values[e, i, SCORE + 1] = wp.min(s.zone_s[e, 1 - own] / field.zone_goal_s, 1.0)
    view.values[e, i, SCORE + 2] = float(s.decision[e]) / float(field.limit)


@wp.func
@no_type_check
def write_contact(s: State, hulls: Hulls, field: Field, view: View, e: int, i: int, j: int, column: int) -> None:
    """Features of mech j in the eyes of mech i."""
    diagonal = 2.0 * wp.sqrt(2.0) * field.half_side
    heading = s.heading[e, i]
    apart = s.position[e, j] - s.position[e, i]
    relative = s.velocity[e, j] - s.velocity[e, i]
    distance = wp.length(apart)
    place = to_frame(apart, heading) / diagonal
    motion = to_frame(relative, heading) / CONTACT_SPEED
    facing = to_frame(s.heading[e, j], heading)
    closing = -wp.dot(relative, apart) / (wp.max(distance, 1.0e-6) * CONTACT_SPEED)
    view.values[e, i, column] = 1.0
    for axis in range(2):
        view.values[e, i, column + 1 + axis] = place[axis]
        view.values[e, i, column + 3 + axis] = wp.clamp(motion[axis], -1.0, 1.0)
        view.values[e, i, column + 5 + axis] = wp.clamp(facing[axis], -1.0, 1.0)
    view.values[e, i, column + 7] = s.hp[e, j] / hulls.hp[j]
    view.values[e, i, column + 8] = heat_share(s, hulls, e, j)
    view.values[e, i, column + 9] = flag(shut_down(s, hulls, e, j))
    view.values[e, i, column + 10] = flag(in_zone(s, e, j))
    view.values[e, i, column + 11] = distance / diagonal
    view.values[e, i, column + 12] = wp.clamp(closing, -1.0, 1.0)


@wp.func
@no_type_check
def contact_slot(s: State, hulls: Hulls, e: int, i: int, j: int) -> int:
    """How many living enemies are nearer than enemy j; equally near ones go by their order."""
    slot = wp.int32(0)
    distance = wp.length_sq(s.position[e, j] - s.position[e, i])
    for k in range(s.hp.shape[1]):
        if k != j and hulls.side[k] == hulls.side[j] and s.hp[e, k] > 0.0:
            other = wp.length_sq(s.position[e, k] - s.position[e, i])
            if other < distance or (other == distance and k < j):
                slot += 1
    return slot


@wp.func
@no_type_check
def write_masks(s: State, hulls: Hulls, view: View, e: int, i: int) -> None:
    """An action matters if any tick of the next decision can heed it."""
    later = TICK_S * wp.static(float(TICKS_PER_DECISION - 1))
    coolest = s.heat[e, i] - hulls.dissipation[i] * later
    heeds = s.hp[e, i] > 0.0 and coolest <= hulls.heat_capacity[i]
    for k in range(view.move.shape[2]):
        view.move[e, i, k] = False
    view.move[e, i, FORWARD] = heeds
    view.move[e, i, STRAFE] = heeds
    view.move[e, i, YAW] = heeds
    for k in range(view.trigger.shape[2]):
        view.trigger[e, i, k] = False
    view.trigger[e, i, LASER] = heeds and s.laser_ticks[e, i] <= TICKS_PER_DECISION
    view.trigger[e, i, VENT] = heeds
    view.trigger[e, i, GUN] = heeds and s.gun_ticks[e, i] <= TICKS_PER_DECISION


@wp.kernel
@no_type_check
def observe(s: State, hulls: Hulls, field: Field, view: View, only_ended: bool) -> None:
    """Write what every mech perceives, or only those of matches that have just been reopened; the dead see nothing."""
    e, i = wp.tid()
    if only_ended and not s.ended[e]:
        return
    for column in range(view.values.shape[2]):
        view.values[e, i, column] = 0.0
    alive = s.hp[e, i] > 0.0
    view.active[e, i] = alive
    write_masks(s, hulls, view, e, i)
    if alive:
        write_ego(s, hulls, field, view, e, i)
        for j in range(s.hp.shape[1]):
            if hulls.side[j] != hulls.side[i] and s.hp[e, j] > 0.0:
                column = CONTACTS + FEATURES * contact_slot(s, hulls, e, i, j)
                write_contact(s, hulls, field, view, e, i, j, column)
