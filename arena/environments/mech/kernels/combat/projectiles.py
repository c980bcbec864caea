"""Flight and collision of shells."""

import warp as wp

from arena.environments.mech.config.chassis import CLASSES
from arena.environments.mech.config.constants import GRAVITY, MISSILE_BLEND, TICK_S
from arena.environments.mech.config.weapons import MISSILE as MISSILE_WEAPON
from arena.environments.mech.config.weapons import SHELL_SLOTS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.combat.hits import direct_damage, record_hit, splash
from arena.environments.mech.kernels.combat.targeting import AUTOCANNON, GAUSS, MISSILE, first_enemy, may_reach
from arena.environments.mech.kernels.geometry import centre, plane
from arena.environments.mech.kernels.ground import on_map, solid_height
from arena.environments.mech.kernels.state import Arms, Field, Hulls, State, Terrain

wp.set_module_options(MODULE_OPTIONS)

MISSILE_SPEED = MISSILE_WEAPON.speed
LARGEST_RADIUS = max(mech.hit_radius for mech in CLASSES.values())
GROUND_STEP = 0.25
"""Fraction of a shell's path in a tick between two points at which the ground is checked."""

NEVER = 2.0
"""Fraction of the path for a shell that hits nothing; above 1, the end of the path."""


@device_function
def is_intercepted(state: State, hulls: Hulls, env: int, mech: int, slot: int) -> bool:
    """Whether an anti-missile system shoots down this shell in this tick."""
    if state.shell_weapon[env, mech, slot] != MISSILE:
        return False
    other = wp.int32(first_enemy(state, hulls, mech))
    end = other + state.hp.shape[1] // 2
    downed = wp.bool(False)
    while other < end:
        downed = downed or state.intercept[env, other] == mech * SHELL_SLOTS + slot
        other += 1
    return downed


@device_function
def steer(state: State, hulls: Hulls, env: int, mech: int, slot: int) -> wp.vec3:
    """Velocity of a shell in this tick: gauss slugs fall, missiles turn to their mark."""
    velocity = state.shell_velocity[env, mech, slot]
    kind = state.shell_weapon[env, mech, slot]
    if kind == GAUSS:
        return velocity - wp.vec3(0.0, 0.0, wp.static(GRAVITY * TICK_S))
    if kind == MISSILE:
        mark = state.shell_target[env, mech, slot]
        if state.hp[env, mark] > 0.0:
            wanted = MISSILE_SPEED * wp.normalize(
                centre(state, hulls, env, mark) - state.shell_position[env, mech, slot]
            )
            blend = wp.static(1.0 - MISSILE_BLEND) * velocity + MISSILE_BLEND * wanted
            return MISSILE_SPEED * wp.normalize(blend)
    return velocity


@device_function
def meet_mech(
    state: State, hulls: Hulls, env: int, mech: int, start: wp.vec3, way: wp.vec3, length: float
) -> tuple[int, float]:
    """The first living enemy that a shell hits, and the fraction of the path there; -1 and NEVER for none."""
    other = wp.int32(first_enemy(state, hulls, mech))
    end = other + state.hp.shape[1] // 2
    # A shell at the end of its reach may not move at all: never divide by 0.
    scale = 1.0 / wp.max(length * length, 1.0e-12)
    target = wp.int32(-1)
    place = wp.float32(NEVER)
    while other < end:
        if may_reach(state.position[env, other] - start, length + LARGEST_RADIUS) and state.hp[env, other] > 0.0:
            apart = centre(state, hulls, env, other) - start
            along = wp.clamp(wp.dot(apart, way) * scale, 0.0, 1.0)
            radius = hulls.hit_radius[other]
            if along < place and wp.length_sq(apart - along * way) <= radius * radius:
                target = other
                place = along
        other += 1
    return target, place


@device_function
def meet_ground(
    state: State, terrain: Terrain, field: Field, env: int, start: wp.vec3, way: wp.vec3, until: float
) -> float:
    """Fraction of the path, below `until`, at which a shell leaves the map or is below the ground; NEVER otherwise."""
    end = start + way
    stays = on_map(field, plane(end))
    # On flat ground a segment that ends above it never meets it.
    if stays and terrain.flat and end[2] >= 0.0:
        return NEVER
    fraction = wp.float32(GROUND_STEP)
    while fraction <= 1.0 and fraction < until:
        point = start + fraction * way
        if point[2] < solid_height(state, terrain, env, plane(point)) or not (stays or on_map(field, plane(point))):
            return fraction
        fraction += GROUND_STEP
    return NEVER


@device_function
def record_shell_hit(
    state: State, hulls: Hulls, arms: Arms, env: int, mech: int, other: int, weapon: int, way: wp.vec3
) -> None:
    """Record a shell's direct hit."""
    damage = direct_damage(state, hulls, arms, env, mech, other, weapon, wp.normalize(plane(way)))
    record_hit(state, hulls, env, mech, other, weapon, damage, arms.stability_damage[weapon])
    if weapon == AUTOCANNON:
        state.suppressed_now[env, mech, other] = True


@device_function
def fly_shell(
    state: State, hulls: Hulls, arms: Arms, terrain: Terrain, field: Field, env: int, mech: int, slot: int
) -> None:
    """Move shell k of the mech by a tick: into a mech or the ground, to the end of its reach, or on."""
    reach = state.shell_reach[env, mech, slot]
    # Gone unless it flies on below: every other end of a shell leaves the slot free.
    state.shell_reach[env, mech, slot] = 0.0
    if is_intercepted(state, hulls, env, mech, slot):
        return
    weapon = state.shell_weapon[env, mech, slot]
    start = state.shell_position[env, mech, slot]
    velocity = steer(state, hulls, env, mech, slot)
    way = TICK_S * velocity
    length = wp.float32(wp.length(way))
    if reach < length:
        way = reach / length * way
        length = reach
    target, place = meet_mech(state, hulls, env, mech, start, way, length)
    # Only ground in front of the mech counts, so the search ends where the shell meets it.
    stopped = meet_ground(state, terrain, field, env, start, way, place)
    if stopped < NEVER:
        splash(state, hulls, arms, terrain, env, mech, weapon, start + stopped * way, -1)
    elif target >= 0:
        record_shell_hit(state, hulls, arms, env, mech, target, weapon, way)
        splash(state, hulls, arms, terrain, env, mech, weapon, start + place * way, target)
    else:
        state.shell_position[env, mech, slot] = start + way
        state.shell_velocity[env, mech, slot] = velocity
        state.shell_reach[env, mech, slot] = reach - length
