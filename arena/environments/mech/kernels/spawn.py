"""Reopening of matches: the next seed, its map, and start positions. Maps are point-symmetric, so sides are equal."""

import warp as wp

from arena.environments.mech.config.chassis import STABILITY
from arena.environments.mech.config.constants import (
    COMM_SIZE,
    SMOKE_SLOTS,
    SPAWN_COLUMNS,
    SPAWN_JITTER,
    SPAWN_JITTER_RAD,
    SPAWN_PITCH,
    ZONE_RADIUS,
    ZONE_RADIUS_RANGE,
)
from arena.environments.mech.config.weapons import SHELL_SLOTS, TIMERS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.actions import reset_decision_stats
from arena.environments.mech.kernels.combat.hits import clear_hits
from arena.environments.mech.kernels.geometry import rotate
from arena.environments.mech.kernels.ground import ground_height
from arena.environments.mech.kernels.rewards import potential
from arena.environments.mech.kernels.state import HOLD, Field, Hulls, State, Terrain
from arena.native.rng_kernels import DEPTH, HEADING, MAP, SIDEWAYS, ZONE, derive, uniform

wp.set_module_options(MODULE_OPTIONS)

TIMER_COUNT = len(TIMERS)
SMALLEST, LARGEST = (ZONE_RADIUS * factor for factor in ZONE_RADIUS_RANGE)


@device_function
def reopen_match(state: State, terrain: Terrain, env: int) -> None:
    """Start a match with its next seed: draw map and zone, and reset the scores."""
    seed = state.next_seeds[env]
    state.seeds[env] = seed
    state.episodes[env] = state.episodes[env] + wp.int64(1)
    # Chosen when the match starts, so that a caller can replace it while the match runs.
    state.next_seeds[env] = derive(state.row_seeds[env], state.episodes[env])
    state.decision[env] = 0
    state.tick[env] = 0
    state.map[env] = int(uniform(seed, MAP, 0, 0) * float(wp.min(state.maps[env], terrain.spawn.shape[0])))
    state.zone_radius[env] = SMALLEST + (LARGEST - SMALLEST) * uniform(seed, ZONE, 0, 0)
    for side in range(2):
        state.zone_s[env, side] = 0.0
        state.zone_tick[env, side] = 0.0
        state.smoke_count[env, side] = 0
        for slot in range(SMOKE_SLOTS):
            state.smoke_left[env, side, slot] = 0


@device_function
def formation_place(field: Field, rank: int) -> wp.vec2:
    """Position of a rank in the formation, relative to its centre: along its rows and outward."""
    row = rank // SPAWN_COLUMNS
    rows = (field.team_size + SPAWN_COLUMNS - 1) // SPAWN_COLUMNS
    columns = wp.min(field.team_size - row * SPAWN_COLUMNS, SPAWN_COLUMNS)
    along = float(rank - row * SPAWN_COLUMNS) - 0.5 * float(columns - 1)
    return SPAWN_PITCH * wp.vec2(along, float(row) - 0.5 * float(rows - 1))


@device_function
def jitter(state: State, env: int, purpose: int, rank: int) -> float:
    """A number in [-1, 1), the same for both sides."""
    return 2.0 * uniform(state.seeds[env], purpose, 0, rank) - 1.0


@device_function
def place_mech(state: State, hulls: Hulls, terrain: Terrain, field: Field, env: int, mech: int) -> None:
    """Place a mech in its formation, facing inward; away is home rotated by half a turn."""
    rank = hulls.slot_in_team[mech]
    centre = terrain.spawn[state.map[env]]
    outward = wp.normalize(centre)
    left = wp.vec2(-outward[1], outward[0])
    moved = SPAWN_JITTER * wp.vec2(jitter(state, env, SIDEWAYS, rank), jitter(state, env, DEPTH, rank))
    offset = formation_place(field, rank) + moved
    angle = SPAWN_JITTER_RAD * jitter(state, env, HEADING, rank)
    # Maps are point-symmetric: negating home's place and heading gives away the same start.
    sign = float(1 - 2 * hulls.side[mech])
    place = (centre + left * offset[0] + outward * offset[1]) * sign
    state.heading[env, mech] = rotate(-outward, wp.vec2(wp.cos(angle), wp.sin(angle))) * sign
    state.position[env, mech] = wp.vec3(place[0], place[1], ground_height(state, hulls, terrain, env, mech, place))
    state.origin[env, mech] = state.position[env, mech]
    state.proposal[env, mech] = place
    state.velocity[env, mech] = wp.vec3(0.0, 0.0, 0.0)


@device_function
def reset_mech(state: State, hulls: Hulls, env: int, mech: int) -> None:
    """Restore a mech to full strength; mechs that do not take part are destroyed without a wreck."""
    state.built[env, mech] = mech
    for other in range(state.hp.shape[1]):
        state.recognised[env, mech, other] = False
    state.hp[env, mech] = wp.where(hulls.slot_in_team[mech] < state.mechs[env], hulls.hp[mech], 0.0)
    state.leg_hp[env, mech] = hulls.leg_hp[mech]
    state.heat[env, mech] = 0.0
    state.stability[env, mech] = STABILITY
    for k in range(TIMER_COUNT):
        state.timers[env, mech, k] = 0
    state.fallen_ticks[env, mech] = 0
    state.suppressed_ticks[env, mech] = 0
    state.painted_ticks[env, mech] = 0
    state.painted_by[env, mech] = -1
    state.ams_ticks[env, mech] = 0
    state.wreck[env, mech] = False
    state.acted[env, mech] = state.hp[env, mech] > 0.0
    state.powered[env, mech] = state.hp[env, mech] > 0.0
    state.burn[env, mech] = 0.0


@device_function
def clear_actions(state: State, env: int, mech: int) -> None:
    """Clear the actions, messages and shells of a mech."""
    state.throttle[env, mech] = wp.vec2(0.0, 0.0)
    state.lift[env, mech] = 0.0
    state.turn[env, mech] = wp.vec2(1.0, 0.0)
    state.fire_allowed[env, mech] = False
    state.focus[env, mech] = -1
    state.ewar[env, mech] = 0
    for k in range(COMM_SIZE):
        state.comm[env, mech, k] = 0.0
    for weapon in range(state.shot.shape[2]):
        state.shot[env, mech, weapon] = HOLD
    state.fires[env, mech] = False
    state.intercept[env, mech] = -1
    for slot in range(SHELL_SLOTS):
        state.shell_reach[env, mech, slot] = 0.0
    clear_hits(state, env, mech)
    reset_decision_stats(state, env, mech)


@device_function
def spawn_mech(state: State, hulls: Hulls, terrain: Terrain, field: Field, env: int, mech: int) -> None:
    """Place a mech of a reopened match."""
    place_mech(state, hulls, terrain, field, env, mech)
    reset_mech(state, hulls, env, mech)
    clear_actions(state, env, mech)
    state.potential[env, mech] = potential(state, hulls, terrain, field, env, mech)
