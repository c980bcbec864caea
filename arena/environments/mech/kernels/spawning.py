"""Reopening matches: the next seed, the map, and mechs on it. The map is point-symmetric: no side is better."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import rotate
from arena.environments.mech.kernels.objective import potential
from arena.environments.mech.kernels.randomness import derive, uniform
from arena.environments.mech.kernels.state import Field, Hulls, State
from arena.environments.mech.rules import (
    SHELL_SLOTS,
    SPAWN_DISTANCE_RANGE,
    SPAWN_JITTER_RAD,
    SPAWN_PITCH,
    ZONE_RADIUS,
    ZONE_RADIUS_RANGE,
)

wp.set_module_options(MODULE_OPTIONS)

ZONE_RADIUS_PURPOSE, ANGLE_PURPOSE, DISTANCE_PURPOSE, HEADING_PURPOSE = range(4)
NEAREST, FARTHEST = SPAWN_DISTANCE_RANGE
SMALLEST, LARGEST = (ZONE_RADIUS * factor for factor in ZONE_RADIUS_RANGE)
TURN = 6.283185307179586


@wp.kernel
@no_type_check
def reopen(s: State) -> None:
    """Move every match that has ended on to its next seed. One thread a match."""
    e = wp.tid()
    if not s.ended[e]:
        return
    s.seeds[e] = s.next_seeds[e]
    s.episodes[e] = s.episodes[e] + wp.int64(1)
    s.next_seeds[e] = derive(s.row_seeds[e], s.episodes[e])
    s.decision[e] = 0
    s.zone_radius[e] = SMALLEST + (LARGEST - SMALLEST) * uniform(s.seeds[e], ZONE_RADIUS_PURPOSE, 0, 0)
    for side in range(2):
        s.zone_s[e, side] = 0.0
        s.zone_tick[e, side] = 0.0


@wp.kernel
@no_type_check
def spawn(s: State, hulls: Hulls, field: Field) -> None:
    """Place every mech of a reopened match; away stands where home would after half a turn of the map."""
    e, i = wp.tid()
    if not s.ended[e]:
        return
    seed = s.seeds[e]
    angle = TURN * uniform(seed, ANGLE_PURPOSE, 0, 0)
    distance = field.half_side * (NEAREST + (FARTHEST - NEAREST) * uniform(seed, DISTANCE_PURPOSE, 0, 0))
    jitter = SPAWN_JITTER_RAD * (2.0 * uniform(seed, HEADING_PURPOSE, 0, hulls.rank[i]) - 1.0)
    outward = wp.vec2(wp.cos(angle), wp.sin(angle))
    beside = SPAWN_PITCH * (float(hulls.rank[i]) - 0.5 * float(field.team_size - 1))
    position = outward * distance + wp.vec2(-outward[1], outward[0]) * beside
    heading = rotate(-outward, wp.vec2(wp.cos(jitter), wp.sin(jitter)))
    sign = float(1 - 2 * hulls.side[i])
    s.position[e, i] = position * sign
    s.heading[e, i] = heading * sign
    s.velocity[e, i] = wp.vec2(0.0, 0.0)
    s.hp[e, i] = hulls.hp[i]
    s.heat[e, i] = 0.0
    s.laser_ticks[e, i] = 0
    s.gun_ticks[e, i] = 0
    s.shots[e, i] = 0
    s.under_fire[e, i] = False
    s.potential[e, i] = potential(s, field, e, i)
    for k in range(SHELL_SLOTS):
        s.shell_reach[e, i, k] = 0.0
