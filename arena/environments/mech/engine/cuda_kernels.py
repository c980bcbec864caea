"""The stages of a decision as kernels with one thread per mech, for a GPU.

Order and results are those of `playing` and `perceiving`, because a stage writes only the entries of its own mech.
"""

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.actions import launch_smoke, read_actions
from arena.environments.mech.kernels.combat.damage import resolve_mech
from arena.environments.mech.kernels.combat.firing import fire_mech
from arena.environments.mech.kernels.combat.targeting import sense_mech
from arena.environments.mech.kernels.movement import collide_mech, integrate_mech
from arena.environments.mech.kernels.observe.perception import observe_mech
from arena.environments.mech.kernels.rewards import earn_mech, share_mech
from arena.environments.mech.kernels.scoring import score_match
from arena.environments.mech.kernels.spawn import reopen_match, spawn_mech
from arena.environments.mech.kernels.state import Arms, Commands, Field, Hulls, Report, State, Terrain, View
from arena.environments.mech.kernels.vision import look_mech, update_sensors

wp.set_module_options(MODULE_OPTIONS)


@wp.kernel
def admit(state: State, hulls: Hulls, field: Field, commands: Commands) -> None:
    """Stage admit."""
    env, mech = wp.tid()
    read_actions(state, hulls, field, commands, env, mech)


@wp.kernel
def smoke(state: State, hulls: Hulls, terrain: Terrain, commands: Commands) -> None:
    """Stage smoke, one thread a match."""
    launch_smoke(state, hulls, terrain, commands, wp.tid())


@wp.kernel
def integrate(state: State, hulls: Hulls, terrain: Terrain, field: Field, commands: Commands) -> None:
    """Stage integrate."""
    env, mech = wp.tid()
    integrate_mech(state, hulls, terrain, field, commands, env, mech)


@wp.kernel
def collide(state: State, hulls: Hulls, terrain: Terrain) -> None:
    """Stage collide."""
    env, mech = wp.tid()
    collide_mech(state, hulls, terrain, env, mech)


@wp.kernel
def sense(state: State, hulls: Hulls, arms: Arms, commands: Commands, tick_offset: int) -> None:
    """Stage sense of the decision's tick k."""
    env, mech = wp.tid()
    sense_mech(state, hulls, arms, commands, state.tick[env] + tick_offset, env, mech)


@wp.kernel
def fire(state: State, hulls: Hulls, arms: Arms, terrain: Terrain, field: Field, tick_offset: int) -> None:
    """Stage fire of the decision's tick k."""
    env, mech = wp.tid()
    fire_mech(state, hulls, arms, terrain, field, state.tick[env] + tick_offset, env, mech)


@wp.kernel
def resolve(state: State, hulls: Hulls, arms: Arms, tick_offset: int) -> None:
    """Stage resolve of the decision's tick k."""
    env, mech = wp.tid()
    resolve_mech(state, hulls, arms, state.tick[env] + tick_offset, env, mech)


@wp.kernel
def score(state: State, hulls: Hulls, terrain: Terrain, field: Field, report: Report) -> None:
    """Stage score, one thread a match."""
    score_match(state, hulls, terrain, field, report, wp.tid())


@wp.kernel
def earn(state: State, hulls: Hulls, terrain: Terrain, field: Field, report: Report) -> None:
    """Stage earn."""
    env, mech = wp.tid()
    earn_mech(state, hulls, terrain, field, report, env, mech)


@wp.kernel
def share(state: State, hulls: Hulls, field: Field, report: Report) -> None:
    """Stage share."""
    env, mech = wp.tid()
    share_mech(state, hulls, field, report, env, mech)


@wp.kernel
def look(state: State, hulls: Hulls, terrain: Terrain, field: Field, only_ended: bool) -> None:
    """Stage look, of all matches or of those that were just reopened."""
    env, mech = wp.tid()
    if state.ended[env] or not only_ended:
        look_mech(state, hulls, terrain, field, env, mech)


@wp.kernel
def listen(state: State, hulls: Hulls, field: Field, only_ended: bool) -> None:
    """Second half of stage look."""
    env, mech = wp.tid()
    if state.ended[env] or not only_ended:
        update_sensors(state, hulls, field, env, mech)


@wp.kernel
def observe(
    state: State, hulls: Hulls, arms: Arms, terrain: Terrain, field: Field, view: View, only_ended: bool
) -> None:
    """Stage observe."""
    env, mech = wp.tid()
    if state.ended[env] or not only_ended:
        observe_mech(state, hulls, arms, terrain, field, view, env, mech)


@wp.kernel
def reopen(state: State, terrain: Terrain) -> None:
    """Move every match that has ended on to its next seed, one thread a match."""
    env = wp.tid()
    if state.ended[env]:
        reopen_match(state, terrain, env)


@wp.kernel
def spawn(state: State, hulls: Hulls, terrain: Terrain, field: Field) -> None:
    """Place the mechs of matches that were just reopened."""
    env, mech = wp.tid()
    if state.ended[env]:
        spawn_mech(state, hulls, terrain, field, env, mech)
