"""Stage observe: observations and action masks of all mechs."""

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.action_masks import write_masks
from arena.environments.mech.kernels.columns import clear
from arena.environments.mech.kernels.geometry import alive
from arena.environments.mech.kernels.observe.contacts import clear_contacts, write_contacts
from arena.environments.mech.kernels.observe.ego import write_ego
from arena.environments.mech.kernels.observe.local_map import write_local_map
from arena.environments.mech.kernels.observe.sensors import write_panel, write_sensors
from arena.environments.mech.kernels.observe.teammates import write_pack
from arena.environments.mech.kernels.state import Arms, Field, Hulls, State, Terrain, View

wp.set_module_options(MODULE_OPTIONS)


@device_function
def observe_mech(
    state: State, hulls: Hulls, arms: Arms, terrain: Terrain, field: Field, view: View, env: int, mech: int
) -> None:
    """Write the whole observation of a mech, all zeros if it is destroyed."""
    row = wp.array(ptr=view.values[env, mech].ptr, shape=(view.values.shape[2],), dtype=wp.float32)
    clear(row)
    lives = alive(state, env, mech)
    view.active[env, mech] = lives
    clear_contacts(state, env, mech)
    if lives:
        write_ego(state, hulls, terrain, field, row, env, mech)
        write_sensors(state, hulls, field, row, env, mech)
        write_panel(state, hulls, field, row, env, mech)
        write_contacts(state, hulls, field, row, env, mech)
        write_pack(state, hulls, field, row, env, mech)
        write_local_map(state, hulls, terrain, field, row, env, mech)
    write_masks(state, hulls, arms, terrain, field, view, env, mech)
