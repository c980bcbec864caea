"""Shells in the air: how they fly and what stops them."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.armament import MISSILE as MISSILE_WEAPON
from arena.environments.mech.armament import SHELL_SLOTS
from arena.environments.mech.classes import CLASSES
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import centre, plane
from arena.environments.mech.kernels.ground import on_map, solid_height
from arena.environments.mech.kernels.hits import burst, direct_damage, hurt
from arena.environments.mech.kernels.state import Arms, Field, Hulls, State, Terrain
from arena.environments.mech.kernels.targeting import AUTOCANNON, GAUSS, MISSILE, first_enemy, may_reach
from arena.environments.mech.rules import GRAVITY, MISSILE_BLEND, TICK_S

wp.set_module_options(MODULE_OPTIONS)

MISSILE_SPEED = MISSILE_WEAPON.speed
LARGEST_RADIUS = max(mech.hit_radius for mech in CLASSES.values())
GROUND_STEP = 0.25
"""Share of a shell's way in a tick from one point at which the ground can stop it to the next."""

NEVER = 2.0
"""Where on its way a shell meets nothing: the way ends at 1."""


@wp.func(inline=True)
@no_type_check
def intercepted(s: State, h: Hulls, e: int, i: int, k: int) -> bool:
    """Whether an anti-missile system downs this shell in this tick."""
    if s.shell_kind[e, i, k] != MISSILE:
        return False
    j = wp.int32(first_enemy(s, h, i))
    end = j + s.hp.shape[1] // 2
    downed = wp.bool(False)
    while j < end:
        downed = downed or s.intercept[e, j] == i * SHELL_SLOTS + k
        j += 1
    return downed


@wp.func(inline=True)
@no_type_check
def steer(s: State, h: Hulls, e: int, i: int, k: int) -> wp.vec3:
    """Velocity of a shell in this tick: gauss slugs fall, missiles turn to their mark."""
    velocity = s.shell_velocity[e, i, k]
    kind = s.shell_kind[e, i, k]
    if kind == GAUSS:
        return velocity - wp.vec3(0.0, 0.0, wp.static(GRAVITY * TICK_S))
    if kind == MISSILE:
        mark = s.shell_mark[e, i, k]
        if s.hp[e, mark] > 0.0:
            wanted = MISSILE_SPEED * wp.normalize(centre(s, h, e, mark) - s.shell_position[e, i, k])
            blend = wp.static(1.0 - MISSILE_BLEND) * velocity + MISSILE_BLEND * wanted
            return MISSILE_SPEED * wp.normalize(blend)
    return velocity


@wp.func(inline=True)
@no_type_check
def meet_mech(s: State, h: Hulls, e: int, i: int, start: wp.vec3, way: wp.vec3, length: float) -> tuple[int, float]:
    """The first living enemy that a shell passes near enough, and where on its way that is; -1 and NEVER if none."""
    j = wp.int32(first_enemy(s, h, i))
    end = j + s.hp.shape[1] // 2
    scale = 1.0 / wp.max(length * length, 1.0e-12)
    met = wp.int32(-1)
    place = wp.float32(NEVER)
    while j < end:
        if may_reach(s.position[e, j] - start, length + LARGEST_RADIUS) and s.hp[e, j] > 0.0:
            apart = centre(s, h, e, j) - start
            along = wp.clamp(wp.dot(apart, way) * scale, 0.0, 1.0)
            radius = h.hit_radius[j]
            if along < place and wp.length_sq(apart - along * way) <= radius * radius:
                met = j
                place = along
        j += 1
    return met, place


@wp.func(inline=True)
@no_type_check
def meet_ground(s: State, t: Terrain, f: Field, e: int, start: wp.vec3, way: wp.vec3, until: float) -> float:
    """Where on its way, before `until`, a shell leaves the map or is below the ground; NEVER if it is not."""
    end = start + way
    stays = on_map(f, plane(end))
    if stays and t.flat and end[2] >= 0.0:
        return NEVER
    fraction = wp.float32(GROUND_STEP)
    while fraction <= 1.0 and fraction < until:
        point = start + fraction * way
        if point[2] < solid_height(s, t, e, plane(point)) or not (stays or on_map(f, plane(point))):
            return fraction
        fraction += GROUND_STEP
    return NEVER


@wp.func(inline=True)
@no_type_check
def strike(s: State, h: Hulls, a: Arms, e: int, i: int, j: int, w: int, way: wp.vec3) -> None:
    """Book a shell's direct hit."""
    damage = direct_damage(s, h, a, e, i, j, w, wp.normalize(plane(way)))
    hurt(s, h, e, i, j, w, damage, a.shake[w])
    if w == AUTOCANNON:
        s.pinned[e, i, j] = True


@wp.func(inline=True)
@no_type_check
def fly_shell(s: State, h: Hulls, a: Arms, t: Terrain, f: Field, e: int, i: int, k: int) -> None:
    """Move shell k of mech i by a tick: into a mech or the ground, to the end of its reach, or on."""
    reach = s.shell_reach[e, i, k]
    s.shell_reach[e, i, k] = 0.0
    if intercepted(s, h, e, i, k):
        return
    w = s.shell_kind[e, i, k]
    start = s.shell_position[e, i, k]
    velocity = steer(s, h, e, i, k)
    way = TICK_S * velocity
    length = wp.float32(wp.length(way))
    if reach < length:
        way = reach / length * way
        length = reach
    met, place = meet_mech(s, h, e, i, start, way, length)
    stopped = meet_ground(s, t, f, e, start, way, place)
    if stopped < NEVER:
        burst(s, h, a, t, e, i, w, start + stopped * way, -1)
    elif met >= 0:
        strike(s, h, a, e, i, met, w, way)
        burst(s, h, a, t, e, i, w, start + place * way, met)
    else:
        s.shell_position[e, i, k] = start + way
        s.shell_velocity[e, i, k] = velocity
        s.shell_reach[e, i, k] = reach - length
