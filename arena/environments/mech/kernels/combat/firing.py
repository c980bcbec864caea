"""Stage fire: move the shells in the air, then fire weapons."""

import warp as wp

from arena.environments.mech.config.constants import GRAVITY, LEG_HIT_BODY, LEG_HIT_CHANCE, MISSILE_LOFT
from arena.environments.mech.config.weapons import SHELL_SLOTS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.combat.hits import clear_hits, direct_damage, record_hit
from arena.environments.mech.kernels.combat.projectiles import MISSILE_SPEED, fly_shell
from arena.environments.mech.kernels.combat.targeting import AUTOCANNON, GAUSS, MISSILE, PAINTER
from arena.environments.mech.kernels.geometry import centre, plane, rotate
from arena.environments.mech.kernels.state import HOLD, Arms, Field, Hulls, State, Terrain
from arena.native.rng_kernels import LEG, SPREAD, uniform

wp.set_module_options(MODULE_OPTIONS)


@device_function
def aim_error(state: State, hulls: Hulls, field: Field, tick: int, env: int, mech: int, weapon: int) -> float:
    """Angle in radians by which a shot misses its aim to the left; missiles and painters never do."""
    if field.speed_spread == 0.0 and field.heat_spread == 0.0:
        return 0.0
    if weapon == MISSILE:
        return 0.0
    if weapon == PAINTER:
        return 0.0
    spread = field.speed_spread * wp.length(plane(state.velocity[env, mech]))
    spread += field.heat_spread * state.heat[env, mech] / hulls.heat_capacity[mech]
    return spread * (2.0 * uniform(state.seeds[env], SPREAD, tick, 8 * hulls.rng_id[mech] + weapon) - 1.0)


@device_function
def fire_hitscan(
    state: State,
    hulls: Hulls,
    arms: Arms,
    tick: int,
    env: int,
    mech: int,
    target: int,
    weapon: int,
    error: float,
) -> None:
    """Hit the target at once, unless the shot passes beside it."""
    way = plane(state.position[env, target] - state.position[env, mech])
    if wp.abs(error) * wp.length(way) > hulls.hit_radius[target]:
        return
    direction = wp.normalize(way)
    damage = wp.float32(direct_damage(state, hulls, arms, env, mech, target, weapon, direction))
    # Eight streams for each mech, one for each of its at most eight weapons.
    if damage > 0.0 and uniform(state.seeds[env], LEG, tick, 8 * hulls.rng_id[mech] + weapon) < LEG_HIT_CHANCE:
        state.leg_damage[env, mech, target] = state.leg_damage[env, mech, target] + damage
        damage *= LEG_HIT_BODY
    record_hit(state, hulls, env, mech, target, weapon, damage, arms.stability_damage[weapon])
    state.heating[env, mech, target] = state.heating[env, mech, target] + arms.target_heat[weapon]
    state.hitscan_hits[env, mech, weapon] = target


@device_function
def slot_of(state: State, env: int, mech: int, weapon: int) -> int:
    """Slot of a new shell: among the slots of its weapon the one with the least remaining reach (ties: the lowest)."""
    if weapon == GAUSS:
        return 2
    slot = wp.int32(0)
    if state.shell_reach[env, mech, 1] < state.shell_reach[env, mech, 0]:
        slot = 1
    if weapon == AUTOCANNON and state.shell_reach[env, mech, 2] < state.shell_reach[env, mech, slot]:
        slot = 2
    return slot


@device_function
def launch_velocity(state: State, arms: Arms, env: int, mech: int, weapon: int, way: wp.vec3) -> wp.vec3:
    """Initial velocity of a shell towards a target at the given offset."""
    direction = wp.normalize(way)
    if weapon == MISSILE:
        return MISSILE_SPEED * wp.normalize(direction + wp.vec3(0.0, 0.0, MISSILE_LOFT))
    velocity = arms.speed[weapon] * direction
    if weapon == GAUSS:
        # Aimed higher by the fall of the slug on its way to the target.
        return velocity + wp.vec3(0.0, 0.0, wp.static(0.5 * GRAVITY) * wp.length(way) / arms.speed[weapon])
    return velocity


@device_function
def launch_shell(
    state: State, hulls: Hulls, arms: Arms, env: int, mech: int, target: int, weapon: int, error: float
) -> None:
    """Put a shell into the air, at the target or, if that is AHEAD, level along the heading."""
    k = slot_of(state, env, mech, weapon)
    start = centre(state, hulls, env, mech)
    state.shell_position[env, mech, k] = start
    if target >= 0:
        state.shell_velocity[env, mech, k] = launch_velocity(
            state, arms, env, mech, weapon, centre(state, hulls, env, target) - start
        )
    else:
        state.shell_velocity[env, mech, k] = arms.speed[weapon] * wp.vec3(
            state.heading[env, mech][0], state.heading[env, mech][1], 0.0
        )
    if error != 0.0:
        velocity = state.shell_velocity[env, mech, k]
        across = rotate(plane(velocity), wp.vec2(wp.cos(error), wp.sin(error)))
        state.shell_velocity[env, mech, k] = wp.vec3(across[0], across[1], velocity[2])
    state.shell_reach[env, mech, k] = arms.range[weapon]
    state.shell_weapon[env, mech, k] = weapon
    state.shell_target[env, mech, k] = target


@device_function
def fire_weapons(state: State, hulls: Hulls, arms: Arms, field: Field, tick: int, env: int, mech: int) -> None:
    """Fire all weapons that have a target or fire ahead, and start their cooldowns."""
    k = wp.int32(0)
    built = state.built[env, mech]
    weapon = wp.int32(hulls.carried[built, 0])
    while weapon >= 0:
        target = state.shot[env, mech, weapon]
        if target != HOLD:
            error = aim_error(state, hulls, field, tick, env, mech, weapon)
            if arms.speed[weapon] > 0.0:
                launch_shell(state, hulls, arms, env, mech, target, weapon, error)
            else:
                fire_hitscan(state, hulls, arms, tick, env, mech, target, weapon, error)
            state.heat[env, mech] = state.heat[env, mech] + arms.heat[weapon]
            state.timers[env, mech, arms.timer[weapon]] = arms.cooldown_ticks[weapon]
        k += 1
        weapon = hulls.carried[built, k]


@device_function
def fire_mech(
    state: State, hulls: Hulls, arms: Arms, terrain: Terrain, field: Field, tick: int, env: int, mech: int
) -> None:
    """Fly the mech's shells, then fire its weapons; a new shell flies from the next tick on."""
    if state.has_hits[env, mech]:
        clear_hits(state, env, mech)
    k = wp.int32(0)
    while k < SHELL_SLOTS:
        if state.shell_reach[env, mech, k] > 0.0:
            fly_shell(state, hulls, arms, terrain, field, env, mech, k)
        k += 1
    if state.fires[env, mech]:
        fire_weapons(state, hulls, arms, field, tick, env, mech)
