"""Observations on a CPU: one thread computes look, listen and observe for one match after another."""

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.observe.perception import observe_mech
from arena.environments.mech.kernels.state import Arms, Field, Hulls, State, Terrain, View
from arena.environments.mech.kernels.vision import look_mech, update_sensors

wp.set_module_options(MODULE_OPTIONS)


@device_function
def perceive_match(
    state: State, hulls: Hulls, arms: Arms, terrain: Terrain, field: Field, view: View, env: int
) -> None:
    """Compute the observations of all mechs in a match."""
    mechs = state.hp.shape[1]
    for mech in range(mechs):
        look_mech(state, hulls, terrain, field, env, mech)
    for mech in range(mechs):
        update_sensors(state, hulls, field, env, mech)
    for mech in range(mechs):
        observe_mech(state, hulls, arms, terrain, field, view, env, mech)


@wp.kernel
def perceive(
    state: State, hulls: Hulls, arms: Arms, terrain: Terrain, field: Field, view: View, only_ended: bool
) -> None:
    """Compute all observations, or only those of matches that were just reopened."""
    for env in range(state.hp.shape[0]):
        if state.ended[env] or not only_ended:
            perceive_match(state, hulls, arms, terrain, field, view, env)
