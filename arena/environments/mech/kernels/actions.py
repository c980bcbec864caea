"""Stages admit and smoke: read the actions of all mechs."""

import warp as wp

from arena.environments.mech.config.constants import (
    COMM_SIZE,
    EWAR_OPTIONS,
    MOVES,
    SMOKE_DECISIONS,
    SMOKE_DISTANCE,
    SMOKE_HEIGHT,
    SMOKE_SLOTS,
    TICK_S,
)
from arena.environments.mech.config.weapons import SMOKE, TIMERS, TRIGGERS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.geometry import hostile, plane
from arena.environments.mech.kernels.ground import solid_height
from arena.environments.mech.kernels.state import Commands, Field, Hulls, State, Terrain
from arena.native.rng_kernels import FIRE as FIRE_DRAW
from arena.native.rng_kernels import SMOKE as SMOKE_DRAW
from arena.native.rng_kernels import uniform

wp.set_module_options(MODULE_OPTIONS)

FORWARD, STRAFE, VERTICAL, YAW = (MOVES.index(name) for name in ("forward", "strafe", "vertical", "yaw_rate"))
SPECIAL = TRIGGERS.index("special")
LAST_EWAR = len(EWAR_OPTIONS) - 1
SMOKE_TIMER, SMOKE_WAIT, SMOKE_HEAT = TIMERS.index(SMOKE.timer), SMOKE.cooldown_ticks, SMOKE.heat
NEAREST, FARTHEST = SMOKE_DISTANCE


@device_function
def clear_decision_stats(state: State, env: int, mech: int) -> None:
    """Clear the damage that the mech dealt in the last decision."""
    other = wp.int32(0)
    while other < state.hp.shape[1]:
        state.dealt[env, mech, other] = 0.0
        state.killed[env, mech, other] = 0.0
        state.assists[env, mech, other] = 0.0
        other += 1
    state.has_stats[env, mech] = False


@device_function
def reset_decision_stats(state: State, env: int, mech: int) -> None:
    """Clear the damage statistics of the decision."""
    if state.has_stats[env, mech]:
        clear_decision_stats(state, env, mech)
    for weapon in range(state.raw_damage.shape[2]):
        state.raw_damage[env, mech, weapon] = 0.0
        state.hitscan_hits[env, mech, weapon] = -1
    state.terrain_damage[env, mech] = 0.0
    state.intercepted[env, mech] = 0
    state.paints[env, mech] = 0
    state.hurt_from[env, mech] = wp.vec2(0.0, 0.0)


@device_function
def read_float(state: State, value: float, env: int, mech: int) -> float:
    """An action float within [-1, 1]; NaN is counted, and 0."""
    # Only NaN is unlike itself. A clamp would pass it on, and it would spread over the match.
    if value != value:
        state.nan_actions[env, mech] = state.nan_actions[env, mech] + wp.int64(1)
        return 0.0
    return wp.clamp(value, -1.0, 1.0)


@device_function
def read_move(state: State, hulls: Hulls, commands: Commands, env: int, mech: int) -> None:
    """Read the throttle, lift and turn of a mech."""
    throttle = wp.vec2(
        read_float(state, commands.move[env, mech, FORWARD], env, mech),
        read_float(state, commands.move[env, mech, STRAFE], env, mech),
    )
    # Longer vectors are cut to length 1: walking diagonally is not faster.
    state.throttle[env, mech] = throttle / wp.max(wp.length(throttle), 1.0)
    state.lift[env, mech] = wp.max(read_float(state, commands.move[env, mech, VERTICAL], env, mech), 0.0)
    angle = read_float(state, commands.move[env, mech, YAW], env, mech) * hulls.max_yaw_rate[mech] * TICK_S
    state.turn[env, mech] = wp.vec2(wp.cos(angle), wp.sin(angle))


@device_function
def read_focus(state: State, hulls: Hulls, commands: Commands, env: int, mech: int) -> int:
    """Living enemy in the contact slot that a mech chose; -1 for none."""
    option = commands.target[env, mech]
    if option < wp.int64(1) or option > wp.int64(state.contact.shape[2]):
        return -1
    other = state.contact[env, mech, int(option) - 1]
    if other >= 0 and hostile(state, hulls, env, mech, other):
        return other
    return -1


@device_function
def read_ewar(hulls: Hulls, commands: Commands, env: int, mech: int) -> int:
    """Electronic warfare that a living mech wants and can; 0 off."""
    option = commands.ewar[env, mech]
    if not hulls.ewar[mech] or option < wp.int64(0) or option > wp.int64(LAST_EWAR):
        return 0
    return int(option)


@device_function
def read_build(state: State, hulls: Hulls, field: Field, commands: Commands, env: int, mech: int) -> None:
    """Give the mech its build, at full strength."""
    option = commands.build[env, mech]
    if option < wp.int64(0) or option >= wp.int64(field.builds):
        option = wp.int64(0)
    built = int(option) * state.hp.shape[1] + mech
    state.built[env, mech] = built
    state.hp[env, mech] = hulls.hp[built]
    state.leg_hp[env, mech] = hulls.leg_hp[built]


@device_function
def may_fire(state: State, hulls: Hulls, env: int, mech: int) -> bool:
    """Whether a mech's triggers count in this decision."""
    probability = state.fire_probability[env, hulls.side[mech]]
    if probability >= 1.0:
        return True
    return uniform(state.seeds[env], FIRE_DRAW, state.tick[env], hulls.rng_id[mech]) < probability


@device_function
def read_message(state: State, commands: Commands, env: int, mech: int, acted: bool) -> None:
    """Read the message of a mech; 0 for destroyed mechs."""
    for k in range(COMM_SIZE):
        word = read_float(state, commands.comm[env, mech, k], env, mech)
        state.comm[env, mech, k] = wp.where(acted, word, 0.0)


@device_function
def read_actions(state: State, hulls: Hulls, field: Field, commands: Commands, env: int, mech: int) -> None:
    """Read the actions of the decision and clear its statistics."""
    acted = state.hp[env, mech] > 0.0
    reset_decision_stats(state, env, mech)
    state.acted[env, mech] = acted
    read_move(state, hulls, commands, env, mech)
    if field.has_comms:
        read_message(state, commands, env, mech, acted)
    state.focus[env, mech] = -1
    state.ewar[env, mech] = 0
    if acted:
        if field.builds > 1 and state.decision[env] == 0:
            read_build(state, hulls, field, commands, env, mech)
        state.fire_allowed[env, mech] = may_fire(state, hulls, env, mech)
        state.focus[env, mech] = read_focus(state, hulls, commands, env, mech)
        state.ewar[env, mech] = read_ewar(hulls, commands, env, mech)


@device_function
def launches_smoke(state: State, hulls: Hulls, commands: Commands, env: int, mech: int) -> bool:
    """Whether a mech wants a cloud of smoke and can have it."""
    if not commands.trigger[env, mech, SPECIAL] or state.hp[env, mech] <= 0.0 or not state.fire_allowed[env, mech]:
        return False
    return (
        state.heat[env, mech] <= hulls.heat_capacity[mech]
        and state.fallen_ticks[env, mech] == 0
        and state.timers[env, mech, SMOKE_TIMER] == 0
    )


@device_function
def launch_cloud(state: State, hulls: Hulls, terrain: Terrain, env: int, mech: int) -> None:
    """Place a cloud ahead of the mech; it replaces the oldest cloud of the side."""
    side = hulls.side[mech]
    # A ring: the oldest cloud of the side is replaced.
    slot = state.smoke_count[env, side] % SMOKE_SLOTS
    distance = NEAREST + (FARTHEST - NEAREST) * uniform(
        state.seeds[env], SMOKE_DRAW, state.tick[env], hulls.rng_id[mech]
    )
    place = plane(state.position[env, mech]) + state.heading[env, mech] * distance
    state.smoke_centre[env, side, slot] = wp.vec3(
        place[0], place[1], solid_height(state, terrain, env, place) + SMOKE_HEIGHT
    )
    state.smoke_left[env, side, slot] = SMOKE_DECISIONS
    state.smoke_count[env, side] = state.smoke_count[env, side] + 1
    state.heat[env, mech] = state.heat[env, mech] + SMOKE_HEAT
    state.timers[env, mech, SMOKE_TIMER] = SMOKE_WAIT


@device_function
def launch_smoke(state: State, hulls: Hulls, terrain: Terrain, commands: Commands, env: int) -> None:
    """Decrement the time of all clouds, then launch new ones."""
    for side in range(2):
        for slot in range(SMOKE_SLOTS):
            state.smoke_left[env, side, slot] = wp.max(state.smoke_left[env, side, slot] - 1, 0)
    for mech in range(state.hp.shape[1]):
        if launches_smoke(state, hulls, commands, env, mech):
            launch_cloud(state, hulls, terrain, env, mech)
