"""Action masks: actions that have an effect in some tick of the next decision."""

import warp as wp

from arena.environments.mech.config.constants import COMM_SIZE, EWAR_OPTIONS, MOVES, TICK_S, TICKS_PER_DECISION
from arena.environments.mech.config.weapons import TIMERS, TRIGGERS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.geometry import alive, hostile, plane, shut_down
from arena.environments.mech.kernels.ground import grounded, material
from arena.environments.mech.kernels.movement import HAZARD_GAIN
from arena.environments.mech.kernels.state import Arms, Field, Hulls, State, Terrain, View

wp.set_module_options(MODULE_OPTIONS)

VERTICAL = MOVES.index("vertical")
VENT, SPECIAL = TRIGGERS.index("vent"), TRIGGERS.index("special")
SMOKE_TIMER = TIMERS.index("missile")
LATER_TICKS = float(TICKS_PER_DECISION - 1)
"""Ticks after the first one of a decision."""


@device_function
def most_cooling(state: State, hulls: Hulls, terrain: Terrain, env: int, mech: int) -> float:
    """Heat that a mech without power can lose in a tick."""
    cooling = wp.float32(hulls.dissipation[mech] * TICK_S)
    if not terrain.flat:
        gain = HAZARD_GAIN[material(state, terrain, env, plane(state.position[env, mech]))]
        if gain < 0.0 or grounded(state, hulls, terrain, env, mech):
            cooling -= gain
    return cooling


@device_function
def can_be_powered(state: State, hulls: Hulls, terrain: Terrain, env: int, mech: int) -> bool:
    """Whether a mech lives and can be powered in a tick of the next decision."""
    if not alive(state, env, mech):
        return False
    over = state.heat[env, mech] - hulls.heat_capacity[mech]
    return over <= 0.0 or over <= LATER_TICKS * most_cooling(state, hulls, terrain, env, mech)


@device_function
def write_move_mask(hulls: Hulls, view: View, env: int, mech: int, steers: bool) -> None:
    """Head move."""
    for k in range(wp.static(len(MOVES))):
        view.move[env, mech, k] = steers and (k != VERTICAL or hulls.jet_acceleration[mech] > 0.0)


@device_function
def write_trigger_mask(
    state: State, hulls: Hulls, arms: Arms, view: View, env: int, mech: int, powered: bool, stands: bool
) -> None:
    """Head trigger."""
    for k in range(wp.static(len(TRIGGERS))):
        view.trigger[env, mech, k] = powered and k == VENT
    if powered:
        slot = wp.int32(0)
        built = state.built[env, mech]
        weapon = wp.int32(hulls.carried[built, 0])
        while weapon >= 0:
            k = hulls.trigger[built, weapon]
            if (
                k >= 0
                and state.timers[env, mech, arms.timer[weapon]] <= TICKS_PER_DECISION
                and (stands or arms.speed[weapon] == 0.0)
            ):
                view.trigger[env, mech, k] = True
            slot += 1
            weapon = hulls.carried[built, slot]
        now = not shut_down(state, hulls, env, mech) and state.fallen_ticks[env, mech] == 0
        view.trigger[env, mech, SPECIAL] = now and state.timers[env, mech, SMOKE_TIMER] == 0


@device_function
def write_target_mask(state: State, hulls: Hulls, view: View, env: int, mech: int) -> None:
    """Mask of the head target: no target, and the contacts that are living enemies."""
    view.target[env, mech, 0] = True
    for slot in range(state.contact.shape[2]):
        other = state.contact[env, mech, slot]
        view.target[env, mech, slot + 1] = other >= 0 and hostile(state, hulls, env, mech, other)


@device_function
def can_be_heard(state: State, hulls: Hulls, field: Field, env: int, mech: int) -> bool:
    """Whether a mech is alive and has a living pack mate."""
    if alive(state, env, mech):
        first = field.team_size * hulls.side[mech]
        for other in range(first, first + field.team_size):
            if other != mech and hulls.pack[other] == hulls.pack[mech] and alive(state, env, other):
                return True
    return False


@device_function
def write_masks(
    state: State, hulls: Hulls, arms: Arms, terrain: Terrain, field: Field, view: View, env: int, mech: int
) -> None:
    """The masks of all heads that the composition has."""
    powered = can_be_powered(state, hulls, terrain, env, mech)
    stands = state.fallen_ticks[env, mech] <= TICKS_PER_DECISION
    write_move_mask(hulls, view, env, mech, powered and stands)
    write_trigger_mask(state, hulls, arms, view, env, mech, powered, stands)
    write_target_mask(state, hulls, view, env, mech)
    if field.has_ewar:
        for option in range(wp.static(len(EWAR_OPTIONS))):
            view.ewar[env, mech, option] = option == 0 or (powered and hulls.ewar[mech])
    if field.builds > 1:
        chooses = state.decision[env] == 0 and alive(state, env, mech)
        for option in range(field.builds):
            view.build[env, mech, option] = option == 0 or chooses
    if field.has_comms:
        talks = can_be_heard(state, hulls, field, env, mech)
        for k in range(COMM_SIZE):
            view.comm[env, mech, k] = talks
