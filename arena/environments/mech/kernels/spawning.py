"""Reopening matches: the next seed, its map, and everybody on it. Maps are point-symmetric: no side is better."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.armament import SHELL_SLOTS, TIMERS
from arena.environments.mech.classes import STABILITY
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.earnings import potential
from arena.environments.mech.kernels.geometry import rotate
from arena.environments.mech.kernels.ground import ground_height
from arena.environments.mech.kernels.hits import clear_hits
from arena.environments.mech.kernels.orders import open_books
from arena.environments.mech.kernels.randomness import DEPTH, HEADING, MAP, SIDEWAYS, ZONE, derive, uniform
from arena.environments.mech.kernels.state import HOLD, Field, Hulls, State, Terrain
from arena.environments.mech.rules import (
    COMM_SIZE,
    SMOKE_SLOTS,
    SPAWN_COLUMNS,
    SPAWN_JITTER,
    SPAWN_JITTER_RAD,
    SPAWN_PITCH,
    ZONE_RADIUS,
    ZONE_RADIUS_RANGE,
)

wp.set_module_options(MODULE_OPTIONS)

TIMER_COUNT = len(TIMERS)
SMALLEST, LARGEST = (ZONE_RADIUS * factor for factor in ZONE_RADIUS_RANGE)


@wp.func(inline=True)
@no_type_check
def reopen_match(s: State, t: Terrain, e: int) -> None:
    """Move a match on to its next seed: another map and zone, nothing scored."""
    seed = s.next_seeds[e]
    s.seeds[e] = seed
    s.episodes[e] = s.episodes[e] + wp.int64(1)
    s.next_seeds[e] = derive(s.row_seeds[e], s.episodes[e])
    s.decision[e] = 0
    s.tick[e] = 0
    s.map[e] = int(uniform(seed, MAP, 0, 0) * float(wp.min(s.maps[e], t.spawn.shape[0])))
    s.zone_radius[e] = SMALLEST + (LARGEST - SMALLEST) * uniform(seed, ZONE, 0, 0)
    for side in range(2):
        s.zone_s[e, side] = 0.0
        s.zone_tick[e, side] = 0.0
        s.smoke_count[e, side] = 0
        for slot in range(SMOKE_SLOTS):
            s.smoke_left[e, side, slot] = 0


@wp.func(inline=True)
@no_type_check
def formation_place(f: Field, rank: int) -> wp.vec2:
    """Place of a rank in the formation, from its centre: along its rows and outward."""
    row = rank // SPAWN_COLUMNS
    rows = (f.team_size + SPAWN_COLUMNS - 1) // SPAWN_COLUMNS
    columns = wp.min(f.team_size - row * SPAWN_COLUMNS, SPAWN_COLUMNS)
    along = float(rank - row * SPAWN_COLUMNS) - 0.5 * float(columns - 1)
    return SPAWN_PITCH * wp.vec2(along, float(row) - 0.5 * float(rows - 1))


@wp.func(inline=True)
@no_type_check
def jitter(s: State, e: int, purpose: int, rank: int) -> float:
    """A number in [-1, 1), the same for both sides."""
    return 2.0 * uniform(s.seeds[e], purpose, 0, rank) - 1.0


@wp.func(inline=True)
@no_type_check
def place_mech(s: State, h: Hulls, t: Terrain, f: Field, e: int, i: int) -> None:
    """Put a mech in its formation, facing inward; away stands where home would after half a turn."""
    rank = h.rank[i]
    centre = t.spawn[s.map[e]]
    outward = wp.normalize(centre)
    left = wp.vec2(-outward[1], outward[0])
    moved = SPAWN_JITTER * wp.vec2(jitter(s, e, SIDEWAYS, rank), jitter(s, e, DEPTH, rank))
    offset = formation_place(f, rank) + moved
    angle = SPAWN_JITTER_RAD * jitter(s, e, HEADING, rank)
    sign = float(1 - 2 * h.side[i])
    place = (centre + left * offset[0] + outward * offset[1]) * sign
    s.heading[e, i] = rotate(-outward, wp.vec2(wp.cos(angle), wp.sin(angle))) * sign
    s.position[e, i] = wp.vec3(place[0], place[1], ground_height(s, h, t, e, i, place))
    s.origin[e, i] = s.position[e, i]
    s.proposal[e, i] = place
    s.velocity[e, i] = wp.vec3(0.0, 0.0, 0.0)


@wp.func(inline=True)
@no_type_check
def refit(s: State, h: Hulls, e: int, i: int) -> None:
    """Make a mech whole, cool and steady; those that do not take part are gone."""
    s.hp[e, i] = wp.where(h.rank[i] < s.mechs[e], h.hp[i], 0.0)
    s.leg_hp[e, i] = h.leg_hp[i]
    s.heat[e, i] = 0.0
    s.stability[e, i] = STABILITY
    for k in range(TIMER_COUNT):
        s.timers[e, i, k] = 0
    s.fallen_ticks[e, i] = 0
    s.suppressed_ticks[e, i] = 0
    s.painted_ticks[e, i] = 0
    s.painted_by[e, i] = -1
    s.ams_ticks[e, i] = 0
    s.wreck[e, i] = False
    s.acted[e, i] = s.hp[e, i] > 0.0
    s.powered[e, i] = s.hp[e, i] > 0.0
    s.burn[e, i] = 0.0


@wp.func(inline=True)
@no_type_check
def silence(s: State, e: int, i: int) -> None:
    """Take back what a mech wanted, said and shot."""
    s.throttle[e, i] = wp.vec2(0.0, 0.0)
    s.lift[e, i] = 0.0
    s.turn[e, i] = wp.vec2(1.0, 0.0)
    s.heeded[e, i] = False
    s.focus[e, i] = -1
    s.ewar[e, i] = 0
    for k in range(COMM_SIZE):
        s.comm[e, i, k] = 0.0
    for w in range(s.shot.shape[2]):
        s.shot[e, i, w] = HOLD
    s.fires[e, i] = False
    s.intercept[e, i] = -1
    for slot in range(SHELL_SLOTS):
        s.shell_reach[e, i, slot] = 0.0
    clear_hits(s, e, i)
    open_books(s, e, i)


@wp.func(inline=True)
@no_type_check
def spawn_mech(s: State, h: Hulls, t: Terrain, f: Field, e: int, i: int) -> None:
    """Place a mech of a reopened match."""
    place_mech(s, h, t, f, e, i)
    refit(s, h, e, i)
    silence(s, e, i)
    s.potential[e, i] = potential(s, h, t, f, e, i)
