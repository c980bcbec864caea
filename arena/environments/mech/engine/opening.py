"""Opening the next match on a CPU, where one has ended."""

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.spawn import reopen_match, spawn_mech
from arena.environments.mech.kernels.state import Field, Hulls, State, Terrain

wp.set_module_options(MODULE_OPTIONS)


@wp.kernel
def open_matches(state: State, hulls: Hulls, terrain: Terrain, field: Field) -> None:
    """Start the next match in every row whose match has ended, and place its mechs."""
    for env in range(state.hp.shape[0]):
        if state.ended[env]:
            reopen_match(state, terrain, env)
            for mech in range(state.hp.shape[1]):
                spawn_mech(state, hulls, terrain, field, env, mech)
