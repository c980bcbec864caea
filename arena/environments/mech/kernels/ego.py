"""Blocks condition, heat, hull, motion, zone, edge and score: a mech, and the match around it."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.armament import TIMERS
from arena.environments.mech.classes import CLASSES, STABILITY
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.aspect import IN_ZONE
from arena.environments.mech.kernels.geometry import plane, to_frame
from arena.environments.mech.kernels.ground import route_step, way
from arena.environments.mech.kernels.rows import (
    CONDITION,
    EDGE,
    HEAT,
    HULL,
    MOTION,
    SCORE,
    ZONE,
    columns,
    flag,
    heat_share,
    share,
    shut_down,
    signed,
)
from arena.environments.mech.kernels.sight import ECCM, ECM
from arena.environments.mech.kernels.state import Field, Hulls, State, Terrain
from arena.environments.mech.kernels.threats import hunted, targeted, under_fire
from arena.environments.mech.layout import CONDITION_FEATURES, HULL_FEATURES, SPEED_SCALE
from arena.environments.mech.rules import AMS_TICKS, CRITICAL_HEAT

wp.set_module_options(MODULE_OPTIONS)

HP, LEG_HP, STANDING, SHUTDOWN, HEAT_CRITICAL, FALLEN, LEGGED = columns(
    CONDITION, CONDITION_FEATURES, "hp leg_hp stability shutdown heat_critical fallen legged"
)
UNDER_FIRE, TARGETED, PAINTED, INBOUND, SUPPRESSED, HOLDS, OWN_ECM, OWN_ECCM = columns(
    CONDITION, CONDITION_FEATURES, "under_fire targeted painted missile_inbound suppressed in_zone ecm eccm"
)
FIRST_TIMER, AMS_TIMER = columns(CONDITION, CONDITION_FEATURES, f"{TIMERS[0]}_timer ams_timer")
FIRST_KIND, SLOTS, RANGE, FIDELITY = columns(HULL, HULL_FEATURES, f"{next(iter(CLASSES))} slots range fidelity")
MOST_SLOTS = 20.0
LEAST_RANGE, RANGE_SPAN = 0.8, 0.7


@wp.func(inline=True)
@no_type_check
def write_condition(s: State, h: Hulls, f: Field, row: wp.array[wp.float32], e: int, i: int) -> None:
    """Blocks condition and heat."""
    heat = heat_share(s, h, e, i)
    row[HEAT] = heat
    row[HP] = share(s.hp[e, i], h.hp[i])
    row[LEG_HP] = share(s.leg_hp[e, i], h.leg_hp[i])
    row[STANDING] = share(s.stability[e, i], STABILITY)
    row[SHUTDOWN] = flag(shut_down(s, h, e, i))
    row[HEAT_CRITICAL] = flag(heat > CRITICAL_HEAT)
    row[FALLEN] = flag(s.fallen_ticks[e, i] > 0)
    row[LEGGED] = flag(s.leg_hp[e, i] <= 0.0)
    row[UNDER_FIRE] = flag(under_fire(s, e, i))
    row[TARGETED] = flag(targeted(s, h, f, e, i))
    row[PAINTED] = flag(s.painted_ticks[e, i] > 0)
    row[INBOUND] = flag(hunted(s, h, f, e, i))
    row[SUPPRESSED] = flag(s.suppressed_ticks[e, i] > 0)
    row[HOLDS] = s.aspect[e, i, IN_ZONE]
    row[OWN_ECM] = flag(s.ewar[e, i] == ECM)
    row[OWN_ECCM] = flag(s.ewar[e, i] == ECCM)
    for k in range(wp.static(len(TIMERS))):
        row[FIRST_TIMER + k] = share(float(s.timers[e, i, k]), float(h.longest_wait[i, k]))
    row[AMS_TIMER] = share(float(s.ams_ticks[e, i]), wp.static(float(AMS_TICKS)))


@wp.func(inline=True)
@no_type_check
def write_hull(h: Hulls, row: wp.array[wp.float32], i: int) -> None:
    """Block hull."""
    for k in range(wp.static(len(CLASSES))):
        row[FIRST_KIND + k] = flag(h.kind[i] == k)
    row[SLOTS] = share(float(h.slots[i]), MOST_SLOTS)
    row[RANGE] = share(h.range_factor[i] - LEAST_RANGE, RANGE_SPAN)
    row[FIDELITY] = h.fidelity[i]


@wp.func(inline=True)
@no_type_check
def write_motion(s: State, row: wp.array[wp.float32], e: int, i: int) -> None:
    """Block motion."""
    velocity = s.velocity[e, i]
    heading = s.heading[e, i]
    motion = to_frame(plane(velocity), heading)
    hurt = to_frame(wp.normalize(s.hurt_from[e, i]), heading)
    row[MOTION] = signed(motion[0] / SPEED_SCALE)
    row[MOTION + 1] = signed(motion[1] / SPEED_SCALE)
    row[MOTION + 2] = signed(velocity[2] / SPEED_SCALE)
    row[MOTION + 3] = signed(hurt[0])
    row[MOTION + 4] = signed(hurt[1])


@wp.func(inline=True)
@no_type_check
def write_zone(s: State, t: Terrain, f: Field, row: wp.array[wp.float32], e: int, i: int) -> None:
    """Block zone."""
    side = 2.0 * f.half_side
    position = plane(s.position[e, i])
    heading = s.heading[e, i]
    centre = to_frame(-position, heading)
    step = to_frame(route_step(s, t, e, position), heading)
    row[ZONE] = signed(centre[0] / side)
    row[ZONE + 1] = signed(centre[1] / side)
    row[ZONE + 2] = share(s.zone_radius[e], side)
    row[ZONE + 3] = signed(step[0])
    row[ZONE + 4] = signed(step[1])
    row[ZONE + 5] = share(way(s, t, e, position) - s.zone_radius[e], 2.0 * side)


@wp.func(inline=True)
@no_type_check
def to_edge(f: Field, position: wp.vec2, direction: wp.vec2, per_metre: wp.vec2) -> float:
    """Distance from a place to the map's edge, in a direction, over the map's side; `per_metre` is 1 / |direction|."""
    reach = wp.float32(4.0 * f.half_side)
    for axis in range(2):
        room = f.half_side - wp.where(direction[axis] < 0.0, -position[axis], position[axis])
        reach = wp.min(reach, room * per_metre[axis])
    return share(reach, 2.0 * f.half_side)


@wp.func(inline=True)
@no_type_check
def write_edge(s: State, f: Field, row: wp.array[wp.float32], e: int, i: int) -> None:
    """Block edge."""
    position = plane(s.position[e, i])
    ahead = s.heading[e, i]
    left = wp.vec2(-ahead[1], ahead[0])
    per_x = 1.0 / wp.max(wp.abs(ahead[0]), 1.0e-6)
    per_y = 1.0 / wp.max(wp.abs(ahead[1]), 1.0e-6)
    row[EDGE] = to_edge(f, position, ahead, wp.vec2(per_x, per_y))
    row[EDGE + 1] = to_edge(f, position, left, wp.vec2(per_y, per_x))
    row[EDGE + 2] = to_edge(f, position, -ahead, wp.vec2(per_x, per_y))
    row[EDGE + 3] = to_edge(f, position, -left, wp.vec2(per_y, per_x))


@wp.func(inline=True)
@no_type_check
def write_score(s: State, h: Hulls, f: Field, row: wp.array[wp.float32], e: int, i: int) -> None:
    """Block score."""
    own = h.side[i]
    row[SCORE] = s.zone_tick[e, own]
    row[SCORE + 1] = s.zone_tick[e, 1 - own]
    row[SCORE + 2] = share(s.zone_s[e, own], f.zone_goal_s)
    row[SCORE + 3] = share(s.zone_s[e, 1 - own], f.zone_goal_s)
    row[SCORE + 4] = share(float(s.decision[e]), float(f.limit))


@wp.func(inline=True)
@no_type_check
def write_ego(s: State, h: Hulls, t: Terrain, f: Field, row: wp.array[wp.float32], e: int, i: int) -> None:
    """All blocks of this module."""
    write_condition(s, h, f, row, e, i)
    write_hull(h, row, i)
    write_motion(s, row, e, i)
    write_zone(s, t, f, row, e, i)
    write_edge(s, f, row, e, i)
    write_score(s, h, f, row, e, i)
