"""Stage look: who has whom in clear sight, and who knows of whom."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.aspect import note_aspect
from arena.environments.mech.kernels.fine import rises_between
from arena.environments.mech.kernels.geometry import alive, eyes
from arena.environments.mech.kernels.state import CLEAR, SMOKE_FREE, Field, Hulls, State, Terrain
from arena.environments.mech.kernels.targeting import painted_by_pack
from arena.environments.mech.rules import (
    ECCM_WEIGHT,
    EWAR_OPTIONS,
    EWAR_RANGE,
    HOT_HEAT,
    JAM_WEIGHT,
    LOCK_QUALITY,
    QUALITY_RANGE,
    RADAR_RANGE,
    SMOKE_RADIUS,
    SMOKE_SLOTS,
)

wp.set_module_options(MODULE_OPTIONS)

ECM, ECCM = EWAR_OPTIONS.index("ecm"), EWAR_OPTIONS.index("eccm")
LEAST_QUALITY, BEST_QUALITY = QUALITY_RANGE


@wp.func(inline=True)
@no_type_check
def smoke_hangs(s: State, e: int) -> bool:
    """Whether there is any cloud."""
    hangs = wp.bool(False)
    for side in range(2):
        for slot in range(SMOKE_SLOTS):
            hangs = hangs or s.smoke_left[e, side, slot] > 0
    return hangs


@wp.func(inline=True)
@no_type_check
def smoke_between(s: State, e: int, start: wp.vec3, end: wp.vec3) -> bool:
    """Whether the way between two points comes nearer than SMOKE_RADIUS to a cloud's centre."""
    middle = (start + end) * 0.5
    span = end - start
    per_length = 1.0 / wp.max(wp.dot(span, span), 1.0e-12)
    for side in range(2):
        for slot in range(SMOKE_SLOTS):
            if s.smoke_left[e, side, slot] > 0:
                off = s.smoke_centre[e, side, slot] - middle
                off -= span * wp.clamp(wp.dot(off, span) * per_length, -0.5, 0.5)
                if wp.dot(off, off) < wp.static(SMOKE_RADIUS**2):
                    return True
    return False


@wp.func(inline=True)
@no_type_check
def ground_hides(s: State, t: Terrain, e: int, start: wp.vec3, end: wp.vec3) -> bool:
    """Whether the ground, or what grows on it, rises above the line between two pairs of eyes."""
    if t.flat or wp.min(start[2], end[2]) >= t.highest[s.map[e]]:
        return False
    return rises_between(t, s.map[e], start, end)


@wp.func(inline=True)
@no_type_check
def view_between(s: State, t: Terrain, e: int, smoke: bool, start: wp.vec3, end: wp.vec3) -> int:
    """What `State.sight` holds for two pairs of eyes."""
    if smoke and smoke_between(s, e, start, end):
        return 0
    if ground_hides(s, t, e, start, end):
        return SMOKE_FREE
    return CLEAR


@wp.func(inline=True)
@no_type_check
def look_mech(s: State, h: Hulls, t: Terrain, f: Field, e: int, i: int) -> None:
    """Note what others see and hear of a mech; let a mech of home and every mech of away look at each other."""
    note_aspect(s, h, t, e, i)
    if h.side[i] != 0:
        return
    smoke = smoke_hangs(s, e)
    watches = alive(s, e, i)
    own = eyes(s, h, e, i)
    for rank in range(f.team_size):
        j = f.team_size + rank
        found = wp.int32(0)
        if watches and alive(s, e, j):
            found = view_between(s, t, e, smoke, own, eyes(s, h, e, j))
        s.sight[e, i, j] = wp.uint8(found)
        s.sight[e, j, i] = wp.uint8(found)


@wp.func(inline=True)
@no_type_check
def apart_squared(s: State, e: int, i: int, j: int) -> float:
    """Squared distance between the feet of two mechs."""
    return wp.length_sq(s.position[e, j] - s.position[e, i])


@wp.func(inline=True)
@no_type_check
def strongest(s: State, h: Hulls, f: Field, e: int, i: int, option: int, side: int) -> float:
    """How strongly the nearest living, powered mech of a side that has an option on reaches mech i, from 0 to 1."""
    strength = wp.float32(0.0)
    j = wp.int32(side * f.team_size)
    end = j + f.team_size
    while j < end:
        if s.ewar[e, j] == option and alive(s, e, j) and s.heat[e, j] <= h.heat_capacity[j]:
            strength = wp.max(strength, 1.0 - wp.sqrt(apart_squared(s, e, i, j)) / EWAR_RANGE)
        j += 1
    return strength


@wp.func(inline=True)
@no_type_check
def notices(s: State, h: Hulls, e: int, i: int, j: int) -> bool:
    """Whether mech i knows of living enemy j in partial mode."""
    view = s.sight[e, i, j]
    if view == wp.uint8(CLEAR):
        return True
    if view != wp.uint8(0) and (s.heat[e, j] > HOT_HEAT * h.heat_capacity[j] or s.ewar[e, j] != 0):
        return True
    reach = RADAR_RANGE * s.quality[e, i] * h.range_factor[i]
    if apart_squared(s, e, i, j) <= reach * reach:
        return True
    return s.quality[e, i] >= LOCK_QUALITY and painted_by_pack(s, h, e, i, j)


@wp.func(inline=True)
@no_type_check
def listen_mech(s: State, h: Hulls, f: Field, e: int, i: int) -> None:
    """How well a mech's sensors work, and of which enemies it knows; the dead know of nobody."""
    other = 1 - h.side[i]
    listens = alive(s, e, i)
    if listens:
        jam = strongest(s, h, f, e, i, ECM, other)
        eccm = strongest(s, h, f, e, i, ECCM, h.side[i])
        s.jam[e, i] = jam
        s.eccm[e, i] = eccm
        s.quality[e, i] = wp.clamp(1.0 - JAM_WEIGHT * jam + ECCM_WEIGHT * eccm, LEAST_QUALITY, BEST_QUALITY)
    j = wp.int32(other * f.team_size)
    end = j + f.team_size
    while j < end:
        s.seen[e, i, j] = listens and alive(s, e, j) and (f.full_sight or notices(s, h, e, i, j))
        j += 1
