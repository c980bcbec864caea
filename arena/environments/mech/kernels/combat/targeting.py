"""Stage sense: targets of the weapons in this tick, and missiles that are shot down.

Inner loops are `while` loops, because Warp's `range` over variable bounds costs more than most of their bodies.
"""

import math

import warp as wp

from arena.environments.mech.config.constants import (
    AMS_CHANCE,
    AMS_RANGE,
    AMS_TICKS,
    FOCUS_CONE_RAD,
    LOCK_QUALITY,
    MISSILE_SIGHT_RANGE,
    NEAREST_CONE_RAD,
)
from arena.environments.mech.config.weapons import SHELL_SLOTS, WEAPONS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.geometry import centre, clear_sight, plane
from arena.environments.mech.kernels.state import AHEAD, HOLD, Arms, Commands, Hulls, State
from arena.native.rng_kernels import AMS, uniform

wp.set_module_options(MODULE_OPTIONS)

LASER, FLAMER, MISSILE, GAUSS, AUTOCANNON, PAINTER = range(len(WEAPONS))
"""Weapons, in the order of WEAPONS."""

FOCUS_COSINE, NEAREST_COSINE = math.cos(FOCUS_CONE_RAD), math.cos(NEAREST_CONE_RAD)


@device_function
def first_enemy(state: State, hulls: Hulls, mech: int) -> int:
    """Lowest index of a mech on the other side."""
    # Mechs of home come first, and both sides have equally many.
    return wp.where(hulls.side[mech] == 0, state.hp.shape[1] // 2, 0)


@device_function
def may_reach(way: wp.vec3, distance: float) -> bool:
    """Cheap test for the range: whether |x| and |y| of an offset are at most the distance."""
    return wp.abs(way[0]) <= distance and wp.abs(way[1]) <= distance


@device_function
def painted_by_pack(state: State, hulls: Hulls, env: int, mech: int, other: int) -> bool:
    """Whether the paint of the mech's pack is on the other mech."""
    painter = state.painted_by[env, other]
    if painter < 0:
        return False
    return hulls.pack[painter] == hulls.pack[mech]


@device_function
def ready(
    state: State, hulls: Hulls, arms: Arms, commands: Commands, env: int, mech: int, built: int, weapon: int
) -> bool:
    """Whether the mech carries the weapon, pulls its trigger and need not wait; a fallen mech launches no shells."""
    k = hulls.trigger[built, weapon]
    if k < 0:
        return False
    if not commands.trigger[env, mech, k] or state.timers[env, mech, arms.timer[weapon]] > 0:
        return False
    return arms.speed[weapon] == 0.0 or state.fallen_ticks[env, mech] == 0


@device_function
def in_arc(state: State, env: int, mech: int, way: wp.vec2, cosine: float) -> bool:
    """Whether a planar offset is within an angle of the mech's heading, given by its cosine."""
    return wp.dot(state.heading[env, mech], way) >= cosine * wp.length(way)


@device_function
def can_target(
    state: State, hulls: Hulls, env: int, mech: int, other: int, weapon: int, way: wp.vec3, cosine: float
) -> bool:
    """Whether an enemy in range at this offset is within the arc, and in clear sight or locked on (missile)."""
    if not in_arc(state, env, mech, plane(way), cosine):
        return False
    if weapon == MISSILE:
        if painted_by_pack(state, hulls, env, mech, other) and state.quality[env, mech] >= LOCK_QUALITY:
            return True
        if wp.length_sq(way) > wp.static(MISSILE_SIGHT_RANGE**2):
            return False
    return clear_sight(state, env, mech, other)


@device_function
def can_target_focus(state: State, hulls: Hulls, arms: Arms, env: int, mech: int, weapon: int, cosine: float) -> bool:
    """Whether the weapon can be aimed at the mech in focus."""
    focus = state.focus[env, mech]
    if focus < 0:
        return False
    if state.hp[env, focus] <= 0.0:
        return False
    way = centre(state, hulls, env, focus) - centre(state, hulls, env, mech)
    return wp.length_sq(way) <= arms.range[weapon] * arms.range[weapon] and can_target(
        state, hulls, env, mech, focus, weapon, way, cosine
    )


@device_function
def nearest_target(state: State, hulls: Hulls, arms: Arms, env: int, mech: int, weapon: int, cosine: float) -> int:
    """Nearest enemy that the weapon can aim at; -1 if there is none."""
    distance = arms.range[weapon]
    other = wp.int32(first_enemy(state, hulls, mech))
    end = other + state.hp.shape[1] // 2
    found = wp.int32(-1)
    # Squared distances spare a square root per pair.
    shortest = wp.float32(distance * distance)
    while other < end:
        if may_reach(state.position[env, other] - state.position[env, mech], distance) and state.hp[env, other] > 0.0:
            way = centre(state, hulls, env, other) - centre(state, hulls, env, mech)
            apart = wp.length_sq(way)
            # Ties: the lowest index, so that the result does not depend on the order of threads.
            nearer = apart < shortest or (apart == shortest and found < 0)
            if nearer and can_target(state, hulls, env, mech, other, weapon, way, cosine):
                found = other
                shortest = apart
        other += 1
    return found


@device_function
def aim(state: State, hulls: Hulls, arms: Arms, env: int, mech: int, weapon: int) -> int:
    """Target of a ready weapon; AHEAD or HOLD without one."""
    # Guns have narrow cones and fire ahead without a target. All other weapons hold fire.
    gun = arms.speed[weapon] > 0.0 and weapon != MISSILE
    arc = arms.half_arc_cosine[weapon]
    if can_target_focus(state, hulls, arms, env, mech, weapon, wp.where(gun, FOCUS_COSINE, arc)):
        return state.focus[env, mech]
    found = nearest_target(state, hulls, arms, env, mech, weapon, wp.where(gun, NEAREST_COSINE, arc))
    if found >= 0:
        return found
    return wp.where(gun, AHEAD, HOLD)


@device_function
def nearest_missile(state: State, hulls: Hulls, env: int, mech: int) -> int:
    """The nearest enemy missile that the mech's anti-missile system reaches, owner * SHELL_SLOTS + slot; -1 if none."""
    start = centre(state, hulls, env, mech)
    other = wp.int32(first_enemy(state, hulls, mech))
    end = other + state.hp.shape[1] // 2
    found = wp.int32(-1)
    shortest = wp.float32(wp.static(AMS_RANGE**2))
    while other < end:
        if hulls.missiles[other]:
            k = wp.int32(0)
            while k < SHELL_SLOTS:
                if state.shell_reach[env, other, k] > 0.0 and state.shell_weapon[env, other, k] == MISSILE:
                    apart = wp.length_sq(state.shell_position[env, other, k] - start)
                    if apart < shortest or (apart == shortest and found < 0):
                        found = other * SHELL_SLOTS + k
                        shortest = apart
                k += 1
        other += 1
    return found


@device_function
def intercept(state: State, hulls: Hulls, tick: int, env: int, mech: int) -> int:
    """Try to shoot down the nearest missile; return the missile, -1 for none."""
    missile = nearest_missile(state, hulls, env, mech)
    if missile < 0:
        return -1
    # The system waits after every attempt, also after one that fails.
    state.ams_ticks[env, mech] = AMS_TICKS
    if uniform(state.seeds[env], AMS, tick, hulls.rng_id[mech]) >= AMS_CHANCE:
        return -1
    state.intercepted[env, mech] = state.intercepted[env, mech] + 1
    return missile


@device_function
def sense_mech(state: State, hulls: Hulls, arms: Arms, commands: Commands, tick: int, env: int, mech: int) -> None:
    """Choose the targets of the mech in this tick, and the missile that its anti-missile system shoots down."""
    armed = state.powered[env, mech] and state.fire_allowed[env, mech]
    fires = wp.bool(False)
    k = wp.int32(0)
    built = state.built[env, mech]
    weapon = wp.int32(hulls.carried[built, 0])
    # `carried` ends with -1, so the loop skips weapons that the class lacks.
    while weapon >= 0:
        shot = wp.int32(HOLD)
        if armed and ready(state, hulls, arms, commands, env, mech, built, weapon):
            shot = aim(state, hulls, arms, env, mech, weapon)
        state.shot[env, mech, weapon] = shot
        fires = fires or shot != HOLD
        k += 1
        weapon = hulls.carried[built, k]
    state.fires[env, mech] = fires
    downed = wp.int32(-1)
    if hulls.ams[mech] and state.powered[env, mech] and state.ams_ticks[env, mech] == 0:
        downed = intercept(state, hulls, tick, env, mech)
    state.intercept[env, mech] = downed
