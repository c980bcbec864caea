"""Stage sense: which weapons fire in this tick and at whom, and which missiles are shot down.

Inner loops are `while` loops: Warp's `range` over variable bounds costs more than most of what they do.
"""

import math
from typing import no_type_check

import warp as wp

from arena.environments.mech.armament import SHELL_SLOTS, WEAPONS
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import centre, clear_sight, plane
from arena.environments.mech.kernels.randomness import AMS, uniform
from arena.environments.mech.kernels.state import AHEAD, HOLD, Arms, Commands, Hulls, State
from arena.environments.mech.rules import (
    AMS_CHANCE,
    AMS_RANGE,
    AMS_TICKS,
    FOCUS_CONE_RAD,
    LOCK_QUALITY,
    MISSILE_SIGHT_RANGE,
    NEAREST_CONE_RAD,
)

wp.set_module_options(MODULE_OPTIONS)

LASER, FLAMER, MISSILE, GAUSS, AUTOCANNON, PAINTER = range(len(WEAPONS))
"""Weapons, in the order of WEAPONS."""

FOCUS_COSINE, NEAREST_COSINE = math.cos(FOCUS_CONE_RAD), math.cos(NEAREST_CONE_RAD)


@wp.func(inline=True)
@no_type_check
def first_enemy(s: State, h: Hulls, i: int) -> int:
    """Lowest index of a mech on the other side."""
    return wp.where(h.side[i] == 0, s.hp.shape[1] // 2, 0)


@wp.func(inline=True)
@no_type_check
def may_reach(way: wp.vec3, distance: float) -> bool:
    """Whether neither x nor y of a way is longer than that: spares the arithmetic for most."""
    return wp.abs(way[0]) <= distance and wp.abs(way[1]) <= distance


@wp.func(inline=True)
@no_type_check
def painted_by_pack(s: State, h: Hulls, e: int, i: int, j: int) -> bool:
    """Whether the paint of mech i's pack is on mech j."""
    painter = s.painted_by[e, j]
    if painter < 0:
        return False
    return h.pack[painter] == h.pack[i]


@wp.func(inline=True)
@no_type_check
def ready(s: State, h: Hulls, a: Arms, c: Commands, e: int, i: int, w: int) -> bool:
    """Whether mech i carries the weapon, pulls its trigger and need not wait; nobody on the ground launches shells."""
    k = h.trigger[i, w]
    if k < 0:
        return False
    if not c.trigger[e, i, k] or s.timers[e, i, a.timer[w]] > 0:
        return False
    return a.speed[w] == 0.0 or s.fallen_ticks[e, i] == 0


@wp.func(inline=True)
@no_type_check
def in_arc(s: State, e: int, i: int, way: wp.vec2, cosine: float) -> bool:
    """Whether a way in the plane lies within the angle of mech i's heading that has this cosine."""
    return wp.dot(s.heading[e, i], way) >= cosine * wp.length(way)


@wp.func(inline=True)
@no_type_check
def fits(s: State, h: Hulls, e: int, i: int, j: int, w: int, way: wp.vec3, cosine: float) -> bool:
    """Whether enemy j, in range and that way off, is in the arc, and in clear sight or (missile) locked on."""
    if not in_arc(s, e, i, plane(way), cosine):
        return False
    if w == MISSILE:
        if painted_by_pack(s, h, e, i, j) and s.quality[e, i] >= LOCK_QUALITY:
            return True
        if wp.length_sq(way) > wp.static(MISSILE_SIGHT_RANGE**2):
            return False
    return clear_sight(s, e, i, j)


@wp.func(inline=True)
@no_type_check
def fits_focus(s: State, h: Hulls, a: Arms, e: int, i: int, w: int, cosine: float) -> bool:
    """Whether the weapon can be aimed at the mech in focus."""
    focus = s.focus[e, i]
    if focus < 0:
        return False
    if s.hp[e, focus] <= 0.0:
        return False
    way = centre(s, h, e, focus) - centre(s, h, e, i)
    return wp.length_sq(way) <= a.range[w] * a.range[w] and fits(s, h, e, i, focus, w, way, cosine)


@wp.func(inline=True)
@no_type_check
def nearest_fit(s: State, h: Hulls, a: Arms, e: int, i: int, w: int, cosine: float) -> int:
    """The nearest enemy at whom the weapon can be aimed; -1 if there is none."""
    distance = a.range[w]
    j = wp.int32(first_enemy(s, h, i))
    end = j + s.hp.shape[1] // 2
    found = wp.int32(-1)
    shortest = wp.float32(distance * distance)
    while j < end:
        if may_reach(s.position[e, j] - s.position[e, i], distance) and s.hp[e, j] > 0.0:
            way = centre(s, h, e, j) - centre(s, h, e, i)
            apart = wp.length_sq(way)
            nearer = apart < shortest or (apart == shortest and found < 0)
            if nearer and fits(s, h, e, i, j, w, way, cosine):
                found = j
                shortest = apart
        j += 1
    return found


@wp.func(inline=True)
@no_type_check
def aim(s: State, h: Hulls, a: Arms, e: int, i: int, w: int) -> int:
    """Whom a weapon that is ready fires at; AHEAD or HOLD where nobody fits."""
    gun = a.speed[w] > 0.0 and w != MISSILE
    arc = a.half_arc_cosine[w]
    if fits_focus(s, h, a, e, i, w, wp.where(gun, FOCUS_COSINE, arc)):
        return s.focus[e, i]
    found = nearest_fit(s, h, a, e, i, w, wp.where(gun, NEAREST_COSINE, arc))
    if found >= 0:
        return found
    return wp.where(gun, AHEAD, HOLD)


@wp.func(inline=True)
@no_type_check
def nearest_missile(s: State, h: Hulls, e: int, i: int) -> int:
    """The nearest enemy missile that mech i's anti-missile system reaches, owner * SHELL_SLOTS + slot; -1 if none."""
    start = centre(s, h, e, i)
    j = wp.int32(first_enemy(s, h, i))
    end = j + s.hp.shape[1] // 2
    found = wp.int32(-1)
    shortest = wp.float32(wp.static(AMS_RANGE**2))
    while j < end:
        if h.trigger[j, MISSILE] >= 0:
            k = wp.int32(0)
            while k < SHELL_SLOTS:
                if s.shell_reach[e, j, k] > 0.0 and s.shell_kind[e, j, k] == MISSILE:
                    apart = wp.length_sq(s.shell_position[e, j, k] - start)
                    if apart < shortest or (apart == shortest and found < 0):
                        found = j * SHELL_SLOTS + k
                        shortest = apart
                k += 1
        j += 1
    return found


@wp.func(inline=True)
@no_type_check
def intercept(s: State, h: Hulls, tick: int, e: int, i: int) -> int:
    """Try for the nearest missile, if there is one: which is downed; -1 none."""
    missile = nearest_missile(s, h, e, i)
    if missile < 0:
        return -1
    s.ams_ticks[e, i] = AMS_TICKS
    if uniform(s.seeds[e], AMS, tick, h.stream[i]) >= AMS_CHANCE:
        return -1
    s.downed[e, i] = s.downed[e, i] + 1
    return missile


@wp.func(inline=True)
@no_type_check
def sense_mech(s: State, h: Hulls, a: Arms, c: Commands, tick: int, e: int, i: int) -> None:
    """Choose what mech i fires at in this tick, and which missile its anti-missile system downs."""
    armed = s.powered[e, i] and s.heeded[e, i]
    fires = wp.bool(False)
    k = wp.int32(0)
    w = wp.int32(h.carried[i, 0])
    while w >= 0:
        shot = wp.int32(HOLD)
        if armed and ready(s, h, a, c, e, i, w):
            shot = aim(s, h, a, e, i, w)
        s.shot[e, i, w] = shot
        fires = fires or shot != HOLD
        k += 1
        w = h.carried[i, k]
    s.fires[e, i] = fires
    downed = wp.int32(-1)
    if h.ams[i] and s.powered[e, i] and s.ams_ticks[e, i] == 0:
        downed = intercept(s, h, tick, e, i)
    s.intercept[e, i] = downed
