"""What a mech feels of those who are after it."""

import warp as wp

from arena.environments.mech.config.constants import TARGETED_RANGE
from arena.environments.mech.config.weapons import SHELL_SLOTS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.combat.targeting import MISSILE
from arena.environments.mech.kernels.geometry import alive, clear_sight
from arena.environments.mech.kernels.state import Field, Hulls, State
from arena.environments.mech.kernels.vision import apart_squared

wp.set_module_options(MODULE_OPTIONS)


@device_function
def under_fire(state: State, env: int, mech: int) -> bool:
    """Whether a mech lost hit points in the last decision."""
    hurt = wp.bool(state.terrain_damage[env, mech] > 0.0)
    other = wp.int32(0)
    while other < state.hp.shape[1]:
        hurt = hurt or (state.has_stats[env, other] and state.dealt[env, other, mech] > 0.0)
        other += 1
    return hurt


@device_function
def targeted(state: State, hulls: Hulls, field: Field, env: int, mech: int) -> bool:
    """Whether a living enemy is near, in clear sight."""
    other = wp.int32(field.team_size * (1 - hulls.side[mech]))
    end = other + field.team_size
    while other < end:
        near = clear_sight(state, env, mech, other) and apart_squared(state, env, mech, other) <= wp.static(
            TARGETED_RANGE**2
        )
        if near and alive(state, env, other):
            return True
        other += 1
    return False


@device_function
def hunted(state: State, hulls: Hulls, field: Field, env: int, mech: int) -> bool:
    """Whether an enemy's missile is on its way to a mech."""
    other = wp.int32(field.team_size * (1 - hulls.side[mech]))
    end = other + field.team_size
    while other < end:
        if hulls.trigger[other, MISSILE] >= 0:
            for slot in range(SHELL_SLOTS):
                flies = state.shell_reach[env, other, slot] > 0.0 and state.shell_weapon[env, other, slot] == MISSILE
                if flies and state.shell_target[env, other, slot] == mech:
                    return True
        other += 1
    return False
