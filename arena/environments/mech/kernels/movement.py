"""Stages integrate and collide: from what mechs want to where they are."""

from typing import Any, no_type_check

import warp as wp

from arena.environments.mech.armament import TIMERS, TRIGGERS
from arena.environments.mech.classes import STABILITY
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import plane, rotate
from arena.environments.mech.kernels.ground import ground_height, grounded, material
from arena.environments.mech.kernels.state import Commands, Field, Hulls, State, Terrain
from arena.environments.mech.rules import (
    CEILING,
    DRAG,
    EWAR_HEAT,
    GRAVITY,
    HAZARD_DAMAGE,
    HAZARD_HEAT,
    LEAST_REGENERATION,
    LEGGED_JETS,
    LEGGED_PENALTY,
    LEGGED_SPEED,
    LEGGED_STABILITY,
    MOVING_PENALTY,
    MOVING_SPEED,
    PLAIN,
    STABILITY_REGENERATION,
    STANDING_STABILITY,
    STEP_UP,
    STEP_UP_SPEED,
    SUPPRESSED_PENALTY,
    TICK_S,
    VENT_FACTOR,
    WATER,
    WATER_SPEED,
)

wp.set_module_options(MODULE_OPTIONS)

VENT = TRIGGERS.index("vent")
Timers = wp.types.vector(length=len(TIMERS), dtype=wp.int32)
ONE_TICK = Timers(1)
WRECK_HEIGHT = 0.5
"""Height of a wreck, as a share of the mech's."""

X, Y = 1, 2
"""Bits of the axes along which a mech is blocked."""


def per_tick(rates: tuple[float, ...]) -> Any:  # noqa: ANN401  a Warp vector
    """What rates per second make in a tick, for kernels to index."""
    return wp.types.vector(len(rates), wp.float32)(*(rate * TICK_S for rate in rates))


EWAR_GAIN, HAZARD_GAIN, HAZARD_BURN = per_tick(EWAR_HEAT), per_tick(HAZARD_HEAT), per_tick(HAZARD_DAMAGE)


@wp.func(inline=True)
@no_type_check
def count_down(s: State, e: int, i: int) -> None:
    """Let a tick pass on everything that lasts; who has lain long enough stands up."""
    timers = wp.array(ptr=s.timers[e, i].ptr, shape=(1,), dtype=Timers)
    timers[0] = wp.max(timers[0] - ONE_TICK, Timers())
    s.suppressed_ticks[e, i] = wp.max(s.suppressed_ticks[e, i] - 1, 0)
    s.ams_ticks[e, i] = wp.max(s.ams_ticks[e, i] - 1, 0)
    if s.painted_ticks[e, i] > 0:
        s.painted_ticks[e, i] = s.painted_ticks[e, i] - 1
        if s.painted_ticks[e, i] == 0:
            s.painted_by[e, i] = -1
    if s.fallen_ticks[e, i] > 0:
        s.fallen_ticks[e, i] = s.fallen_ticks[e, i] - 1
        if s.fallen_ticks[e, i] == 0:
            s.stability[e, i] = STANDING_STABILITY


@wp.func(inline=True)
@no_type_check
def underfoot(s: State, h: Hulls, t: Terrain, e: int, i: int) -> int:
    """Material that a mech stands in; plain while it is in the air."""
    ground = material(s, t, e, plane(s.position[e, i]))
    if ground == PLAIN or grounded(s, h, t, e, i):
        return ground
    return PLAIN


@wp.func(inline=True)
@no_type_check
def exchange_heat(s: State, h: Hulls, c: Commands, e: int, i: int, powered: bool, ground: int) -> None:
    """Cool down, and take what electronic warfare and the ground add."""
    gain = wp.float32(-h.dissipation[i] * TICK_S)
    if powered:
        if c.trigger[e, i, VENT]:
            gain *= VENT_FACTOR
        gain += EWAR_GAIN[s.ewar[e, i]]
    s.heat[e, i] = wp.max(s.heat[e, i] + gain + HAZARD_GAIN[ground], 0.0)


@wp.func(inline=True)
@no_type_check
def steady(s: State, e: int, i: int, legged: bool) -> None:
    """Regain stability, up to what a mech can have."""
    if s.fallen_ticks[e, i] > 0:
        return
    most = wp.where(legged, LEGGED_STABILITY * STABILITY, STABILITY)
    if s.stability[e, i] < most:
        share = wp.where(legged, 1.0 - LEGGED_PENALTY, 1.0)
        if wp.length_sq(plane(s.velocity[e, i])) > MOVING_SPEED * MOVING_SPEED:
            share -= MOVING_PENALTY
        if s.suppressed_ticks[e, i] > 0:
            share -= SUPPRESSED_PENALTY
        s.stability[e, i] = s.stability[e, i] + STABILITY_REGENERATION * TICK_S * wp.max(share, LEAST_REGENERATION)
    s.stability[e, i] = wp.min(s.stability[e, i], most)


@wp.func(inline=True)
@no_type_check
def steer(s: State, h: Hulls, e: int, i: int, legged: bool, ground: int) -> wp.vec2:
    """Turn, and say how fast to walk where to."""
    heading = wp.normalize(rotate(s.heading[e, i], s.turn[e, i]))
    s.heading[e, i] = heading
    speed = wp.float32(h.max_speed[i] * DRAG)
    if legged:
        speed *= LEGGED_SPEED
    if ground == WATER:
        speed *= WATER_SPEED
    return rotate(s.throttle[e, i], heading) * speed


@wp.func(inline=True)
@no_type_check
def propose(s: State, h: Hulls, f: Field, e: int, i: int, walk: wp.vec2) -> wp.vec2:
    """Where a velocity takes a mech in a tick, inside the map."""
    edge = f.half_side - 0.5 * h.width[i]
    place = plane(s.position[e, i]) + walk * TICK_S
    return wp.vec2(wp.clamp(place[0], -edge, edge), wp.clamp(place[1], -edge, edge))


@wp.func(inline=True)
@no_type_check
def integrate_mech(s: State, h: Hulls, t: Terrain, f: Field, c: Commands, e: int, i: int) -> None:
    """Let a tick pass on a mech, and propose where it goes; the dead keep still."""
    s.origin[e, i] = s.position[e, i]
    if s.hp[e, i] <= 0.0:
        s.powered[e, i] = False
        s.proposal[e, i] = plane(s.position[e, i])
        return
    powered = s.heat[e, i] <= h.heat_capacity[i]
    s.powered[e, i] = powered
    count_down(s, e, i)
    ground = underfoot(s, h, t, e, i)
    legged = s.leg_hp[e, i] <= 0.0
    exchange_heat(s, h, c, e, i, powered, ground)
    s.burn[e, i] = HAZARD_BURN[ground]
    steady(s, e, i, legged)
    walk = wp.vec2(0.0, 0.0)
    jets = wp.float32(0.0)
    if powered and s.fallen_ticks[e, i] == 0:
        walk = steer(s, h, e, i, legged, ground)
        jets = s.lift[e, i] * h.jet_acceleration[i] * wp.where(legged, LEGGED_JETS, 1.0)
    rise = (s.velocity[e, i][2] + (jets - GRAVITY) * TICK_S) * DRAG
    s.velocity[e, i] = wp.vec3(walk[0], walk[1], rise)
    s.proposal[e, i] = propose(s, h, f, e, i, walk)


@wp.func(inline=True)
@no_type_check
def in_height(s: State, h: Hulls, e: int, i: int, j: int) -> bool:
    """Whether mech j or its wreck is there, and at the same height as mech i somewhere."""
    top = wp.float32(h.height[j])
    if s.hp[e, j] <= 0.0:
        if not s.wreck[e, j]:
            return False
        top *= WRECK_HEIGHT
    low, other_low = s.origin[e, i][2], s.origin[e, j][2]
    return low < other_low + top and other_low < low + h.height[i]


@wp.func(inline=True)
@no_type_check
def closes_in(way: float, before: float, after: float) -> bool:
    """Whether a mech's own way along an axis leads to another, and they are nearer along it than before."""
    return way * before > 0.0 and wp.abs(after) < wp.abs(before)


@wp.func(inline=True)
@no_type_check
def approached(s: State, e: int, i: int, j: int) -> int:
    """Bit of the axis along which mechs i and j were farther apart, if mech i closes in along it; else 0."""
    way = s.proposal[e, i] - plane(s.origin[e, i])
    before = plane(s.origin[e, j] - s.origin[e, i])
    after = s.proposal[e, j] - s.proposal[e, i]
    if wp.abs(before[1]) > wp.abs(before[0]):
        return wp.where(closes_in(way[1], before[1], after[1]), Y, 0)
    return wp.where(closes_in(way[0], before[0], after[0]), X, 0)


@wp.func(inline=True)
@no_type_check
def axes_blocked(s: State, h: Hulls, e: int, i: int) -> int:
    """Bits of the axes along which other mechs and wrecks stand in mech i's way."""
    blocked = wp.int32(0)
    mechs = s.hp.shape[1]
    proposals = wp.array(ptr=s.proposal[e].ptr, shape=(mechs,), dtype=wp.vec2)
    place = proposals[i]
    half_width = 0.5 * h.width[i]
    j = wp.int32(0)
    while j < mechs:
        apart = proposals[j] - place
        reach = half_width + 0.5 * h.width[j]
        across = wp.where(wp.abs(apart[0]) < reach, wp.abs(apart[1]), reach)
        if across < reach and j != i and in_height(s, h, e, i, j):
            blocked = blocked | approached(s, e, i, j)
        j += 1
    return blocked


@wp.func(inline=True)
@no_type_check
def fall(s: State, e: int, i: int, place: wp.vec2, velocity: wp.vec3, floor: float) -> None:
    """Put a mech at a place, and let it rise or fall no farther than the floor and the ceiling there."""
    z = wp.float32(s.origin[e, i][2] + velocity[2] * TICK_S)
    rise = wp.float32(velocity[2])
    if z <= floor:
        z = floor
        rise = 0.0
    elif z > CEILING:
        z = CEILING
        rise = wp.min(rise, 0.0)
    s.position[e, i] = wp.vec3(place[0], place[1], z)
    s.velocity[e, i] = wp.vec3(velocity[0], velocity[1], rise)


@wp.func(inline=True)
@no_type_check
def collide_mech(s: State, h: Hulls, t: Terrain, e: int, i: int) -> None:
    """Move a mech along each axis as far as mechs, wrecks and the ground let it; then up or down."""
    if s.hp[e, i] <= 0.0:
        return
    place = plane(s.origin[e, i])
    proposal = s.proposal[e, i]
    velocity = s.velocity[e, i]
    blocked = wp.int32(0)
    if proposal[0] != place[0] or proposal[1] != place[1]:
        blocked = axes_blocked(s, h, e, i)
    highest = s.origin[e, i][2] + wp.where(wp.abs(velocity[2]) < STEP_UP_SPEED, STEP_UP, 0.0)
    floor = ground_height(s, h, t, e, i, wp.vec2(proposal[0], place[1]))
    if floor > highest or (blocked & X) != 0:
        velocity[0] = 0.0
        floor = ground_height(s, h, t, e, i, place)
    else:
        place[0] = proposal[0]
    beside = ground_height(s, h, t, e, i, wp.vec2(place[0], proposal[1]))
    if beside > highest or (blocked & Y) != 0:
        velocity[1] = 0.0
    else:
        place[1] = proposal[1]
        floor = beside
    fall(s, e, i, place, velocity, floor)
