"""Stages integrate and collide: from actions to new positions."""

from typing import Any

import warp as wp

from arena.environments.mech.config.chassis import STABILITY
from arena.environments.mech.config.constants import (
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
from arena.environments.mech.config.weapons import TIMERS, TRIGGERS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.geometry import plane, rotate
from arena.environments.mech.kernels.ground import ground_height, grounded, material
from arena.environments.mech.kernels.state import Commands, Field, Hulls, State, Terrain

wp.set_module_options(MODULE_OPTIONS)

VENT = TRIGGERS.index("vent")
Timers = wp.types.vector(length=len(TIMERS), dtype=wp.int32)
ONE_TICK = Timers(1)
WRECK_HEIGHT = 0.5
"""Height of a wreck, as a share of the mech's."""

X, Y = 1, 2
"""Bits of the axes along which a mech is blocked."""


def per_tick(rates: tuple[float, ...]) -> Any:  # noqa: ANN401  a Warp vector
    """Rates per tick, from rates per second, as a vector for kernels."""
    return wp.types.vector(len(rates), wp.float32)(*(rate * TICK_S for rate in rates))


EWAR_GAIN, HAZARD_GAIN, HAZARD_BURN = per_tick(EWAR_HEAT), per_tick(HAZARD_HEAT), per_tick(HAZARD_DAMAGE)


@device_function
def count_down(state: State, env: int, mech: int) -> None:
    """Decrement all timers; a mech stands up when the timer of its fall ends."""
    # The four timers of a mech as one vector: one load and store in place of four.
    timers = wp.array(ptr=state.timers[env, mech].ptr, shape=(1,), dtype=Timers)
    timers[0] = wp.max(timers[0] - ONE_TICK, Timers())
    state.suppressed_ticks[env, mech] = wp.max(state.suppressed_ticks[env, mech] - 1, 0)
    state.ams_ticks[env, mech] = wp.max(state.ams_ticks[env, mech] - 1, 0)
    if state.painted_ticks[env, mech] > 0:
        state.painted_ticks[env, mech] = state.painted_ticks[env, mech] - 1
        if state.painted_ticks[env, mech] == 0:
            state.painted_by[env, mech] = -1
    if state.fallen_ticks[env, mech] > 0:
        state.fallen_ticks[env, mech] = state.fallen_ticks[env, mech] - 1
        if state.fallen_ticks[env, mech] == 0:
            state.stability[env, mech] = STANDING_STABILITY


@device_function
def material_below(state: State, hulls: Hulls, terrain: Terrain, env: int, mech: int) -> int:
    """Material that affects a mech; plain while it is in the air."""
    ground = material(state, terrain, env, plane(state.position[env, mech]))
    if ground == PLAIN or grounded(state, hulls, terrain, env, mech):
        return ground
    return PLAIN


@device_function
def exchange_heat(
    state: State, hulls: Hulls, commands: Commands, env: int, mech: int, powered: bool, ground: int
) -> None:
    """Dissipate heat, and add the heat of electronic warfare and of the ground."""
    gain = wp.float32(-hulls.dissipation[mech] * TICK_S)
    if powered:
        if commands.trigger[env, mech, VENT]:
            gain *= VENT_FACTOR
        gain += EWAR_GAIN[state.ewar[env, mech]]
    state.heat[env, mech] = wp.max(state.heat[env, mech] + gain + HAZARD_GAIN[ground], 0.0)


@device_function
def regenerate_stability(state: State, env: int, mech: int, legged: bool) -> None:
    """Regenerate stability up to its maximum."""
    if state.fallen_ticks[env, mech] > 0:
        return
    most = wp.where(legged, LEGGED_STABILITY * STABILITY, STABILITY)
    if state.stability[env, mech] < most:
        share = wp.where(legged, 1.0 - LEGGED_PENALTY, 1.0)
        if wp.length_sq(plane(state.velocity[env, mech])) > MOVING_SPEED * MOVING_SPEED:
            share -= MOVING_PENALTY
        if state.suppressed_ticks[env, mech] > 0:
            share -= SUPPRESSED_PENALTY
        state.stability[env, mech] = state.stability[env, mech] + STABILITY_REGENERATION * TICK_S * wp.max(
            share, LEAST_REGENERATION
        )
    state.stability[env, mech] = wp.min(state.stability[env, mech], most)


@device_function
def steer(state: State, hulls: Hulls, env: int, mech: int, legged: bool, ground: int) -> wp.vec2:
    """Turn, and return the planar velocity of walking."""
    heading = wp.normalize(rotate(state.heading[env, mech], state.turn[env, mech]))
    state.heading[env, mech] = heading
    speed = wp.float32(hulls.max_speed[state.built[env, mech]] * DRAG)
    if legged:
        speed *= LEGGED_SPEED
    if ground == WATER:
        speed *= WATER_SPEED
    return rotate(state.throttle[env, mech], heading) * speed


@device_function
def propose(state: State, hulls: Hulls, field: Field, env: int, mech: int, walk: wp.vec2) -> wp.vec2:
    """Position after a tick at the given velocity, clamped to the map."""
    edge = field.half_side - 0.5 * hulls.width[mech]
    place = plane(state.position[env, mech]) + walk * TICK_S
    return wp.vec2(wp.clamp(place[0], -edge, edge), wp.clamp(place[1], -edge, edge))


@device_function
def integrate_mech(
    state: State, hulls: Hulls, terrain: Terrain, field: Field, commands: Commands, env: int, mech: int
) -> None:
    """Update timers, heat, stability and velocity of a mech, and propose its position; destroyed mechs stay."""
    state.origin[env, mech] = state.position[env, mech]
    if state.hp[env, mech] <= 0.0:
        state.powered[env, mech] = False
        state.proposal[env, mech] = plane(state.position[env, mech])
        return
    # Read before heat is exchanged: a mech that cools below its capacity acts from the next tick on.
    powered = state.heat[env, mech] <= hulls.heat_capacity[mech]
    state.powered[env, mech] = powered
    count_down(state, env, mech)
    ground = material_below(state, hulls, terrain, env, mech)
    legged = state.leg_hp[env, mech] <= 0.0
    exchange_heat(state, hulls, commands, env, mech, powered, ground)
    state.burn[env, mech] = HAZARD_BURN[ground]
    regenerate_stability(state, env, mech, legged)
    walk = wp.vec2(0.0, 0.0)
    jets = wp.float32(0.0)
    if powered and state.fallen_ticks[env, mech] == 0:
        walk = steer(state, hulls, env, mech, legged, ground)
        jets = state.lift[env, mech] * hulls.jet_acceleration[mech] * wp.where(legged, LEGGED_JETS, 1.0)
    # Semi-implicit Euler: positions use the new velocity.
    rise = (state.velocity[env, mech][2] + (jets - GRAVITY) * TICK_S) * DRAG
    state.velocity[env, mech] = wp.vec3(walk[0], walk[1], rise)
    state.proposal[env, mech] = propose(state, hulls, field, env, mech, walk)


@device_function
def in_height(state: State, hulls: Hulls, env: int, mech: int, other: int) -> bool:
    """Whether the other mech or its wreck is there, and at the same height as the mech somewhere."""
    top = wp.float32(hulls.height[other])
    if state.hp[env, other] <= 0.0:
        if not state.wreck[env, other]:
            return False
        top *= WRECK_HEIGHT
    low, other_low = state.origin[env, mech][2], state.origin[env, other][2]
    return low < other_low + top and other_low < low + hulls.height[mech]


@device_function
def closes_in(way: float, before: float, after: float) -> bool:
    """Whether a mech moves towards another along an axis, and their distance along it shrinks."""
    return way * before > 0.0 and wp.abs(after) < wp.abs(before)


@device_function
def approached(state: State, env: int, mech: int, other: int) -> int:
    """Bit of the axis along which the two mechs were farther apart, if the mech closes in along it; else 0."""
    way = state.proposal[env, mech] - plane(state.origin[env, mech])
    before = plane(state.origin[env, other] - state.origin[env, mech])
    after = state.proposal[env, other] - state.proposal[env, mech]
    if wp.abs(before[1]) > wp.abs(before[0]):
        return wp.where(closes_in(way[1], before[1], after[1]), Y, 0)
    return wp.where(closes_in(way[0], before[0], after[0]), X, 0)


@device_function
def axes_blocked(state: State, hulls: Hulls, env: int, mech: int) -> int:
    """Bits of the axes along which other mechs and wrecks block the mech."""
    blocked = wp.int32(0)
    mechs = state.hp.shape[1]
    # Indexing one row of the batch spares the computation of its address for every other mech.
    proposals = wp.array(ptr=state.proposal[env].ptr, shape=(mechs,), dtype=wp.vec2)
    place = proposals[mech]
    half_width = 0.5 * hulls.width[mech]
    other = wp.int32(0)
    while other < mechs:
        apart = proposals[other] - place
        reach = half_width + 0.5 * hulls.width[other]
        # The comparison along y counts only if the boxes overlap along x.
        across = wp.where(wp.abs(apart[0]) < reach, wp.abs(apart[1]), reach)
        if across < reach and other != mech and in_height(state, hulls, env, mech, other):
            blocked = blocked | approached(state, env, mech, other)
        other += 1
    return blocked


@device_function
def fall(state: State, env: int, mech: int, place: wp.vec2, velocity: wp.vec3, floor: float) -> None:
    """Move a mech to a position, and clamp its height between floor and ceiling."""
    z = wp.float32(state.origin[env, mech][2] + velocity[2] * TICK_S)
    rise = wp.float32(velocity[2])
    if z <= floor:
        z = floor
        rise = 0.0
    elif z > CEILING:
        z = CEILING
        rise = wp.min(rise, 0.0)
    state.position[env, mech] = wp.vec3(place[0], place[1], z)
    state.velocity[env, mech] = wp.vec3(velocity[0], velocity[1], rise)


@device_function
def collide_mech(state: State, hulls: Hulls, terrain: Terrain, env: int, mech: int) -> None:
    """Move a mech along each axis unless mechs, wrecks or the ground block it; then move it vertically."""
    if state.hp[env, mech] <= 0.0:
        return
    place = plane(state.origin[env, mech])
    proposal = state.proposal[env, mech]
    velocity = state.velocity[env, mech]
    blocked = wp.int32(0)
    # A mech that does not move horizontally cannot collide, which skips most pairs.
    if proposal[0] != place[0] or proposal[1] != place[1]:
        blocked = axes_blocked(state, hulls, env, mech)
    highest = state.origin[env, mech][2] + wp.where(wp.abs(velocity[2]) < STEP_UP_SPEED, STEP_UP, 0.0)
    # Axes are tested one after the other, so that a mech slides along a wall.
    floor = ground_height(state, hulls, terrain, env, mech, wp.vec2(proposal[0], place[1]))
    if floor > highest or (blocked & X) != 0:
        velocity[0] = 0.0
        floor = ground_height(state, hulls, terrain, env, mech, place)
    else:
        place[0] = proposal[0]
    beside = ground_height(state, hulls, terrain, env, mech, wp.vec2(place[0], proposal[1]))
    if beside > highest or (blocked & Y) != 0:
        velocity[1] = 0.0
    else:
        place[1] = proposal[1]
        floor = beside
    fall(state, env, mech, place, velocity, floor)
