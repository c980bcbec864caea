"""Stage fire: shells in the air fly on, then whoever fires does so."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.armament import SHELL_SLOTS
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import centre, plane
from arena.environments.mech.kernels.hits import clear_hits, direct_damage, hurt
from arena.environments.mech.kernels.randomness import LEG, uniform
from arena.environments.mech.kernels.shells import MISSILE_SPEED, fly_shell
from arena.environments.mech.kernels.state import HOLD, Arms, Field, Hulls, State, Terrain
from arena.environments.mech.kernels.targeting import AUTOCANNON, GAUSS, MISSILE
from arena.environments.mech.rules import GRAVITY, LEG_HIT_BODY, LEG_HIT_CHANCE, MISSILE_LOFT

wp.set_module_options(MODULE_OPTIONS)


@wp.func(inline=True)
@no_type_check
def beam(s: State, h: Hulls, a: Arms, tick: int, e: int, i: int, j: int, w: int) -> None:
    """Hit mech j at once."""
    direction = wp.normalize(plane(s.position[e, j] - s.position[e, i]))
    damage = wp.float32(direct_damage(s, h, a, e, i, j, w, direction))
    if damage > 0.0 and uniform(s.seeds[e], LEG, tick, 8 * h.stream[i] + w) < LEG_HIT_CHANCE:
        s.leg_damage[e, i, j] = s.leg_damage[e, i, j] + damage
        damage *= LEG_HIT_BODY
    hurt(s, h, e, i, j, w, damage, a.shake[w])
    s.heating[e, i, j] = s.heating[e, i, j] + a.target_heat[w]
    s.beams[e, i, w] = j


@wp.func(inline=True)
@no_type_check
def slot_of(s: State, e: int, i: int, w: int) -> int:
    """Where a new shell goes: of its weapon's slots the one with the least reach left, the lowest if equal."""
    if w == GAUSS:
        return 2
    slot = wp.int32(0)
    if s.shell_reach[e, i, 1] < s.shell_reach[e, i, 0]:
        slot = 1
    if w == AUTOCANNON and s.shell_reach[e, i, 2] < s.shell_reach[e, i, slot]:
        slot = 2
    return slot


@wp.func(inline=True)
@no_type_check
def launch_velocity(s: State, a: Arms, e: int, i: int, w: int, way: wp.vec3) -> wp.vec3:
    """How a new shell starts off to a target that way off."""
    direction = wp.normalize(way)
    if w == MISSILE:
        return MISSILE_SPEED * wp.normalize(direction + wp.vec3(0.0, 0.0, MISSILE_LOFT))
    velocity = a.speed[w] * direction
    if w == GAUSS:
        return velocity + wp.vec3(0.0, 0.0, wp.static(0.5 * GRAVITY) * wp.length(way) / a.speed[w])
    return velocity


@wp.func(inline=True)
@no_type_check
def launch(s: State, h: Hulls, a: Arms, e: int, i: int, j: int, w: int) -> None:
    """Put a shell into the air, at mech j or, if that is AHEAD, level along the heading."""
    k = slot_of(s, e, i, w)
    start = centre(s, h, e, i)
    s.shell_position[e, i, k] = start
    if j >= 0:
        s.shell_velocity[e, i, k] = launch_velocity(s, a, e, i, w, centre(s, h, e, j) - start)
    else:
        s.shell_velocity[e, i, k] = a.speed[w] * wp.vec3(s.heading[e, i][0], s.heading[e, i][1], 0.0)
    s.shell_reach[e, i, k] = a.range[w]
    s.shell_kind[e, i, k] = w
    s.shell_mark[e, i, k] = j


@wp.func(inline=True)
@no_type_check
def fire_weapons(s: State, h: Hulls, a: Arms, tick: int, e: int, i: int) -> None:
    """Fire all weapons that have somebody to fire at, and let them wait."""
    k = wp.int32(0)
    w = wp.int32(h.carried[i, 0])
    while w >= 0:
        target = s.shot[e, i, w]
        if target != HOLD:
            if a.speed[w] > 0.0:
                launch(s, h, a, e, i, target, w)
            else:
                beam(s, h, a, tick, e, i, target, w)
            s.heat[e, i] = s.heat[e, i] + a.heat[w]
            s.timers[e, i, a.timer[w]] = a.cooldown_ticks[w]
        k += 1
        w = h.carried[i, k]


@wp.func(inline=True)
@no_type_check
def fire_mech(s: State, h: Hulls, a: Arms, t: Terrain, f: Field, tick: int, e: int, i: int) -> None:
    """Fly mech i's shells, then fire its weapons; a new shell flies from the next tick on."""
    if s.struck[e, i]:
        clear_hits(s, e, i)
    k = wp.int32(0)
    while k < SHELL_SLOTS:
        if s.shell_reach[e, i, k] > 0.0:
            fly_shell(s, h, a, t, f, e, i, k)
        k += 1
    if s.fires[e, i]:
        fire_weapons(s, h, a, tick, e, i)
