"""Effects of a hit, recorded in the shooter's rows and applied in stage resolve."""

import warp as wp

from arena.environments.mech.config.constants import PAINT_FACTOR, REAR_COSINE, REAR_FACTOR
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.combat.targeting import painted_by_pack
from arena.environments.mech.kernels.geometry import centre
from arena.environments.mech.kernels.ground import ground_between
from arena.environments.mech.kernels.state import Arms, Hulls, State, Terrain

wp.set_module_options(MODULE_OPTIONS)


@device_function
def clear_hits(state: State, env: int, shooter: int) -> None:
    """Clear the shooter's hits of the last tick."""
    target = wp.int32(0)
    while target < state.hp.shape[1]:
        state.damage[env, shooter, target] = 0.0
        state.leg_damage[env, shooter, target] = 0.0
        state.stability_damage[env, shooter, target] = 0.0
        state.heating[env, shooter, target] = 0.0
        state.suppressed_now[env, shooter, target] = False
        target += 1
    state.has_hits[env, shooter] = False


@device_function
def record_hit(
    state: State, hulls: Hulls, env: int, shooter: int, target: int, weapon: int, damage: float, stability_damage: float
) -> None:
    """Record the effect of the shooter's weapon on the target's body."""
    state.has_hits[env, shooter] = True
    state.damage[env, shooter, target] = state.damage[env, shooter, target] + damage
    state.stability_damage[env, shooter, target] = state.stability_damage[env, shooter, target] + stability_damage
    if hulls.side[target] != hulls.side[shooter]:
        state.raw_damage[env, shooter, weapon] = state.raw_damage[env, shooter, weapon] + damage


@device_function
def direct_damage(
    state: State, hulls: Hulls, arms: Arms, env: int, shooter: int, target: int, weapon: int, direction: wp.vec2
) -> float:
    """Damage of a direct hit for a shot in the given (unit) direction, with rear and paint bonus."""
    damage = wp.float32(arms.damage[weapon])
    if wp.dot(state.heading[env, target], direction) > REAR_COSINE:
        damage *= REAR_FACTOR
    if painted_by_pack(state, hulls, env, shooter, target):
        damage *= PAINT_FACTOR
    return damage


@device_function
def splash(
    state: State,
    hulls: Hulls,
    arms: Arms,
    terrain: Terrain,
    env: int,
    shooter: int,
    weapon: int,
    point: wp.vec3,
    spared: int,
) -> None:
    """Record splash damage to mechs of both sides near the point, except behind ground and the mech hit directly."""
    radius = arms.splash_radius[weapon]
    if radius == 0.0:
        return
    for target in range(state.hp.shape[1]):
        if target != spared and state.hp[env, target] > 0.0:
            middle = centre(state, hulls, env, target)
            apart = wp.max(wp.length(middle - point) - hulls.hit_radius[target], 0.0)
            if apart < radius and not ground_between(state, terrain, env, point, middle):
                share = arms.splash_scale[weapon] * (1.0 - apart / radius)
                record_hit(
                    state,
                    hulls,
                    env,
                    shooter,
                    target,
                    weapon,
                    share * arms.damage[weapon],
                    share * arms.stability_damage[weapon],
                )
