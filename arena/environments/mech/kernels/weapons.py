"""Stages sense, fire and resolve: from positions to wounds."""

import math
from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.state import Hulls, State
from arena.environments.mech.rules import AUTOCANNON, LASER, REAR_COSINE, REAR_FACTOR, SHELL_SLOTS, SHELL_STEP

wp.set_module_options(MODULE_OPTIONS)

LASER_COSINE = math.cos(LASER.half_arc_rad)
GUN_COSINE = math.cos(AUTOCANNON.half_arc_rad)


@wp.func
@no_type_check
def nearest_enemy(s: State, hulls: Hulls, e: int, i: int, reach: float, cosine: float) -> int:
    """The nearest living enemy within reach and within the angle of the heading; -1 if there is none."""
    found = wp.int32(-1)
    shortest = wp.float32(reach)
    for j in range(s.hp.shape[1]):
        if hulls.side[j] != hulls.side[i] and s.hp[e, j] > 0.0:
            apart = s.position[e, j] - s.position[e, i]
            distance = wp.length(apart)
            if distance <= shortest and wp.dot(s.heading[e, i], apart) >= cosine * distance:
                found = j
                shortest = distance
    return found


@wp.kernel
@no_type_check
def sense(s: State, hulls: Hulls) -> None:
    """Find whom the laser would hit, and where the autocannon would shoot."""
    e, i = wp.tid()
    s.target[e, i] = nearest_enemy(s, hulls, e, i, wp.static(LASER.range), LASER_COSINE)
    aimed = nearest_enemy(s, hulls, e, i, wp.static(AUTOCANNON.range), GUN_COSINE)
    s.aim[e, i] = s.heading[e, i]
    if aimed >= 0:
        s.aim[e, i] = wp.normalize(s.position[e, aimed] - s.position[e, i])


@wp.func
@no_type_check
def rear_factor(s: State, e: int, j: int, direction: wp.vec2) -> float:
    """Damage factor of a shot that hits mech j while flying in that direction."""
    return wp.where(wp.dot(s.heading[e, j], direction) > REAR_COSINE, REAR_FACTOR, 1.0)


@wp.func
@no_type_check
def fly(s: State, hulls: Hulls, e: int, i: int, k: int) -> None:
    """Move one shell by a tick; it hits the first enemy that it passes near enough."""
    step = wp.min(s.shell_reach[e, i, k], SHELL_STEP)
    start = s.shell_position[e, i, k]
    direction = s.shell_direction[e, i, k]
    hit = wp.int32(-1)
    first = wp.float32(step)
    for j in range(s.hp.shape[1]):
        if hulls.side[j] != hulls.side[i] and s.hp[e, j] > 0.0:
            apart = s.position[e, j] - start
            along = wp.clamp(wp.dot(apart, direction), 0.0, step)
            near = wp.length(apart - direction * along) <= hulls.hit_radius[j]
            if near and (hit < 0 or along < first):
                hit = j
                first = along
    s.shell_position[e, i, k] = start + direction * step
    s.shell_reach[e, i, k] = s.shell_reach[e, i, k] - step
    if hit >= 0:
        s.damage[e, i, hit] = s.damage[e, i, hit] + wp.static(AUTOCANNON.damage) * rear_factor(s, e, hit, direction)
        s.shell_reach[e, i, k] = 0.0


@wp.func
@no_type_check
def shoot_laser(s: State, e: int, i: int, j: int) -> None:
    """Hit mech j at once."""
    direction = wp.normalize(s.position[e, j] - s.position[e, i])
    s.damage[e, i, j] = s.damage[e, i, j] + wp.static(LASER.damage) * rear_factor(s, e, j, direction)
    s.heating[e, i, j] = s.heating[e, i, j] + wp.static(LASER.target_heat)
    s.heat[e, i] = s.heat[e, i] + wp.static(LASER.heat)
    s.laser_ticks[e, i] = wp.static(LASER.cooldown_ticks)


@wp.func
@no_type_check
def shoot_gun(s: State, e: int, i: int) -> None:
    """Put a shell into the air; it flies from the next tick on."""
    slot = s.shots[e, i] % SHELL_SLOTS
    s.shell_position[e, i, slot] = s.position[e, i]
    s.shell_direction[e, i, slot] = s.aim[e, i]
    s.shell_reach[e, i, slot] = wp.static(AUTOCANNON.range)
    s.shots[e, i] = s.shots[e, i] + 1
    s.heat[e, i] = s.heat[e, i] + wp.static(AUTOCANNON.heat)
    s.gun_ticks[e, i] = wp.static(AUTOCANNON.cooldown_ticks)


@wp.kernel
@no_type_check
def fire(s: State, hulls: Hulls) -> None:
    """Fly the shells in the air, then fire what the trigger asks for and heat and cooldown allow."""
    e, i = wp.tid()
    for j in range(s.hp.shape[1]):
        s.damage[e, i, j] = 0.0
        s.heating[e, i, j] = 0.0
    for k in range(SHELL_SLOTS):
        if s.shell_reach[e, i, k] > 0.0:
            fly(s, hulls, e, i, k)
    target = s.target[e, i]
    if s.powered[e, i] and s.fire_laser[e, i] and s.laser_ticks[e, i] == 0 and target >= 0:
        shoot_laser(s, e, i, target)
    if s.powered[e, i] and s.fire_gun[e, i] and s.gun_ticks[e, i] == 0:
        shoot_gun(s, e, i)


@wp.kernel
@no_type_check
def resolve(s: State) -> None:
    """Take the tick's damage and heat, and book who dealt how much of what was taken."""
    e, j = wp.tid()
    hp = s.hp[e, j]
    total = wp.float32(0.0)
    heating = wp.float32(0.0)
    for i in range(s.hp.shape[1]):
        total += s.damage[e, i, j]
        heating += s.heating[e, i, j]
    if hp > 0.0 and total > 0.0:
        taken = wp.min(total, hp)
        for i in range(s.hp.shape[1]):
            share = s.damage[e, i, j] / total
            s.dealt[e, i, j] = s.dealt[e, i, j] + taken * share
            if total >= hp:
                s.killed[e, i, j] = share
        s.hp[e, j] = hp - taken
    s.heat[e, j] = s.heat[e, j] + heating
