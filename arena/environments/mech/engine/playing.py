"""A decision on a CPU: five ticks of integrate, collide, sense, fire and resolve, then score, earn and share.

One thread takes a match through all stages before the next one, so that its data stays in the cache. The structs, which
Warp passes by value, are unpacked once. `cuda_kernels` has the same order for a GPU, with a kernel for every stage.
"""

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.actions import launch_smoke, read_actions
from arena.environments.mech.kernels.combat.damage import resolve_mech
from arena.environments.mech.kernels.combat.firing import fire_mech
from arena.environments.mech.kernels.combat.targeting import sense_mech
from arena.environments.mech.kernels.movement import collide_mech, integrate_mech
from arena.environments.mech.kernels.rewards import earn_mech, share_mech
from arena.environments.mech.kernels.scoring import score_match
from arena.environments.mech.kernels.state import Arms, Commands, Field, Hulls, Report, State, Terrain

wp.set_module_options(MODULE_OPTIONS)


@device_function
def play_tick(
    state: State, hulls: Hulls, arms: Arms, terrain: Terrain, field: Field, commands: Commands, tick: int, env: int
) -> None:
    """Run one tick of a match."""
    mechs = state.hp.shape[1]
    for mech in range(mechs):
        integrate_mech(state, hulls, terrain, field, commands, env, mech)
    for mech in range(mechs):
        collide_mech(state, hulls, terrain, env, mech)
    for mech in range(mechs):
        sense_mech(state, hulls, arms, commands, tick, env, mech)
    for mech in range(mechs):
        fire_mech(state, hulls, arms, terrain, field, tick, env, mech)
    for mech in range(mechs):
        resolve_mech(state, hulls, arms, tick, env, mech)


@device_function
def play_match(
    state: State,
    hulls: Hulls,
    arms: Arms,
    terrain: Terrain,
    field: Field,
    commands: Commands,
    report: Report,
    ticks: int,
    env: int,
) -> None:
    """Run all stages of a match's decision, up to the rewards."""
    mechs = state.hp.shape[1]
    for mech in range(mechs):
        read_actions(state, hulls, field, commands, env, mech)
    launch_smoke(state, hulls, terrain, commands, env)
    first = state.tick[env]
    for k in range(ticks):
        play_tick(state, hulls, arms, terrain, field, commands, first + k, env)
    score_match(state, hulls, terrain, field, report, env)
    for mech in range(mechs):
        earn_mech(state, hulls, terrain, field, report, env, mech)
    for mech in range(mechs):
        share_mech(state, hulls, field, report, env, mech)


@wp.kernel
def play_decision(
    state: State,
    hulls: Hulls,
    arms: Arms,
    terrain: Terrain,
    field: Field,
    commands: Commands,
    report: Report,
    ticks: int,
) -> None:
    """Run all stages of a decision for every match."""
    for env in range(state.hp.shape[0]):
        play_match(state, hulls, arms, terrain, field, commands, report, ticks, env)
