"""Stage resolve: apply all hits of this tick at once."""

import warp as wp

from arena.environments.mech.config.constants import FALLEN_TICKS, PAINT_TICKS, SUPPRESSED_TICKS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.combat.targeting import PAINTER, first_enemy
from arena.environments.mech.kernels.geometry import centre, enemies_first, plane
from arena.environments.mech.kernels.state import Arms, Hulls, State
from arena.native.rng_kernels import WRECK, uniform

wp.set_module_options(MODULE_OPTIONS)


@device_function
def credit_assists(state: State, hulls: Hulls, env: int, mech: int) -> None:
    """Credit the painter of a mech that was just destroyed with the killing damage of its pack mates."""
    painter = state.painted_by[env, mech]
    if painter < 0:
        return
    first = first_enemy(state, hulls, mech)
    share = wp.float32(0.0)
    for shooter in range(first, first + state.hp.shape[1] // 2):
        if shooter != painter and hulls.pack[shooter] == hulls.pack[painter]:
            share += state.killed[env, shooter, mech]
    state.has_stats[env, painter] = True
    state.assists[env, painter, mech] = share


@device_function
def destroy(state: State, hulls: Hulls, tick: int, env: int, mech: int) -> None:
    """Destroy the mech, and perhaps leave a wreck."""
    credit_assists(state, hulls, env, mech)
    state.wreck[env, mech] = uniform(state.seeds[env], WRECK, tick, hulls.rng_id[mech]) < hulls.wreck_chance[mech]
    state.velocity[env, mech] = wp.vec3(0.0, 0.0, 0.0)


@device_function
def apply_damage(state: State, hulls: Hulls, tick: int, env: int, mech: int, total: float) -> None:
    """Subtract damage from the mech's hit points, at most what is left, and record the share of each shooter."""
    mechs = state.hp.shape[1]
    hp = state.hp[env, mech]
    taken = wp.min(total, hp)
    # Enemies first: float addition depends on its order, and both sides must get the same sum.
    for k in range(mechs):
        shooter = enemies_first(hulls, mechs, mech, k)
        damage = state.damage[env, shooter, mech]
        if damage > 0.0:
            share = damage / total
            state.has_stats[env, shooter] = True
            state.dealt[env, shooter, mech] = state.dealt[env, shooter, mech] + taken * share
            state.hurt_from[env, mech] = state.hurt_from[env, mech] + damage * wp.normalize(
                plane(state.position[env, shooter] - state.position[env, mech])
            )
            if total >= hp:
                state.killed[env, shooter, mech] = share
    state.terrain_damage[env, mech] = state.terrain_damage[env, mech] + taken * (state.burn[env, mech] / total)
    state.hp[env, mech] = hp - taken
    if total >= hp:
        destroy(state, hulls, tick, env, mech)


@device_function
def apply_stability_damage(state: State, env: int, mech: int, amount: float) -> None:
    """Subtract from the mech's stability; it falls at 0."""
    if state.fallen_ticks[env, mech] > 0:
        return
    state.stability[env, mech] = wp.max(state.stability[env, mech] - amount, 0.0)
    if state.stability[env, mech] == 0.0:
        state.fallen_ticks[env, mech] = FALLEN_TICKS
        state.velocity[env, mech] = wp.vec3(0.0, 0.0, 0.0)


@device_function
def paint(state: State, hulls: Hulls, env: int, mech: int) -> None:
    """Apply the paint of the nearest enemy that hit the mech with a painter in this tick."""
    first = first_enemy(state, hulls, mech)
    painter = wp.int32(-1)
    shortest = wp.float32(0.0)
    place = centre(state, hulls, env, mech)
    for shooter in range(first, first + state.hp.shape[1] // 2):
        if state.shot[env, shooter, PAINTER] == mech:
            apart = wp.length_sq(centre(state, hulls, env, shooter) - place)
            if painter < 0 or apart < shortest:
                painter = shooter
                shortest = apart
    if painter < 0:
        return
    if state.painted_by[env, mech] < 0:
        # Atomic on GPUs, where several targets of one painter are resolved at once.
        wp.atomic_add(state.paints, env, painter, 1)
        wp.atomic_add(state.paints, env, mech, -1)
    state.painted_by[env, mech] = painter
    state.painted_ticks[env, mech] = PAINT_TICKS


@device_function
def was_hit(state: State, env: int, mech: int) -> bool:
    """Whether any weapon or painter hit the mech in this tick."""
    shooter = wp.int32(0)
    while shooter < state.hp.shape[1]:
        if state.has_hits[env, shooter] and (
            state.damage[env, shooter, mech] > 0.0 or state.shot[env, shooter, PAINTER] == mech
        ):
            return True
        shooter += 1
    return False


@device_function
def resolve_mech(state: State, hulls: Hulls, arms: Arms, tick: int, env: int, mech: int) -> None:
    """Apply the damage of all mechs and of the ground to the mech in this tick."""
    # Most mechs are hit in no tick, so look before adding up.
    if state.hp[env, mech] <= 0.0 or (state.burn[env, mech] == 0.0 and not was_hit(state, env, mech)):
        return
    damage = wp.float32(state.burn[env, mech])
    legs = wp.float32(0.0)
    stability_damage = wp.float32(0.0)
    painted = wp.bool(False)
    k = wp.int32(0)
    while k < state.hp.shape[1]:
        shooter = enemies_first(hulls, state.hp.shape[1], mech, k)
        if state.has_hits[env, shooter]:
            damage += state.damage[env, shooter, mech]
            legs += state.leg_damage[env, shooter, mech]
            stability_damage += state.stability_damage[env, shooter, mech]
            state.heat[env, mech] = state.heat[env, mech] + state.heating[env, shooter, mech]
            painted = painted or state.shot[env, shooter, PAINTER] == mech
            if state.suppressed_now[env, shooter, mech]:
                state.suppressed_ticks[env, mech] = SUPPRESSED_TICKS
        k += 1
    if damage > 0.0:
        apply_damage(state, hulls, tick, env, mech, damage)
    if legs > 0.0:
        state.leg_hp[env, mech] = wp.max(state.leg_hp[env, mech] - legs, 0.0)
    if stability_damage > 0.0:
        apply_stability_damage(state, env, mech, stability_damage)
    if painted:
        paint(state, hulls, env, mech)
