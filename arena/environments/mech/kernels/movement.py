"""Stages admit, integrate and collide: from actions to positions."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import rotate
from arena.environments.mech.kernels.state import Commands, Field, Hulls, State
from arena.environments.mech.rules import DRAG, MOVES, TICK_S, TRIGGERS, VENT_FACTOR

wp.set_module_options(MODULE_OPTIONS)

FORWARD, STRAFE, YAW = MOVES.index("forward"), MOVES.index("strafe"), MOVES.index("yaw_rate")
LASER, VENT, GUN = TRIGGERS.index("primary"), TRIGGERS.index("vent"), TRIGGERS.index("tertiary")


@wp.func
@no_type_check
def admitted(s: State, value: float, e: int, i: int) -> float:
    """An action float within [-1, 1]; NaN is counted, and 0."""
    if wp.isnan(value):
        s.nan_actions[e, i] = s.nan_actions[e, i] + wp.int64(1)
        return 0.0
    return wp.clamp(value, -1.0, 1.0)


@wp.kernel
@no_type_check
def admit(s: State, hulls: Hulls, commands: Commands) -> None:
    """Take the decision's actions in, and open its books."""
    e, i = wp.tid()
    s.acted[e, i] = s.hp[e, i] > 0.0
    throttle = wp.vec2(
        admitted(s, commands.move[e, i, FORWARD], e, i),
        admitted(s, commands.move[e, i, STRAFE], e, i),
    )
    s.throttle[e, i] = throttle / wp.max(wp.length(throttle), 1.0)
    angle = admitted(s, commands.move[e, i, YAW], e, i) * hulls.max_yaw_rate[i] * TICK_S
    s.turn[e, i] = wp.vec2(wp.cos(angle), wp.sin(angle))
    s.vent[e, i] = commands.trigger[e, i, VENT]
    s.fire_laser[e, i] = commands.trigger[e, i, LASER]
    s.fire_gun[e, i] = commands.trigger[e, i, GUN]
    for j in range(s.hp.shape[1]):
        s.dealt[e, i, j] = 0.0
        s.killed[e, i, j] = 0.0


@wp.kernel
@no_type_check
def integrate(s: State, hulls: Hulls, field: Field) -> None:
    """Cool down, turn, and propose where to move."""
    e, i = wp.tid()
    powered = s.hp[e, i] > 0.0 and s.heat[e, i] <= hulls.heat_capacity[i]
    cooling = hulls.dissipation[i] * TICK_S
    if powered and s.vent[e, i]:
        cooling = cooling * VENT_FACTOR
    s.powered[e, i] = powered
    s.heat[e, i] = wp.max(s.heat[e, i] - cooling, 0.0)
    s.laser_ticks[e, i] = wp.max(s.laser_ticks[e, i] - 1, 0)
    s.gun_ticks[e, i] = wp.max(s.gun_ticks[e, i] - 1, 0)
    velocity = wp.vec2(0.0, 0.0)
    if powered:
        heading = wp.normalize(rotate(s.heading[e, i], s.turn[e, i]))
        s.heading[e, i] = heading
        velocity = rotate(s.throttle[e, i], heading) * (hulls.max_speed[i] * DRAG)
    s.velocity[e, i] = velocity
    s.origin[e, i] = s.position[e, i]
    edge = field.half_side - 0.5 * hulls.width[i]
    moved = s.position[e, i] + velocity * TICK_S
    s.proposal[e, i] = wp.vec2(wp.clamp(moved[0], -edge, edge), wp.clamp(moved[1], -edge, edge))


@wp.kernel
@no_type_check
def collide(s: State, hulls: Hulls) -> None:
    """Move, unless two boxes would overlap and come closer: then both stand still."""
    e, i = wp.tid()
    blocked = wp.bool(False)
    for j in range(s.hp.shape[1]):
        if j != i and s.hp[e, i] > 0.0 and s.hp[e, j] > 0.0:
            apart = s.proposal[e, j] - s.proposal[e, i]
            before = s.origin[e, j] - s.origin[e, i]
            reach = 0.5 * (hulls.width[i] + hulls.width[j])
            overlap = wp.abs(apart[0]) < reach and wp.abs(apart[1]) < reach
            if overlap and wp.length_sq(apart) < wp.length_sq(before):
                blocked = True
    if blocked:
        s.velocity[e, i] = wp.vec2(0.0, 0.0)
    else:
        s.position[e, i] = s.proposal[e, i]
