"""Everything that a batch of matches is, as a struct of arrays shared between Warp and torch."""

from typing import no_type_check

import warp as wp


@wp.struct
@no_type_check
class Hulls:
    """Constant rows: what the class of each of the N mechs means."""

    side: wp.array[wp.int32]
    """0 home, 1 away."""
    rank: wp.array[wp.int32]
    """Place within the side."""
    width: wp.array[wp.float32]
    hit_radius: wp.array[wp.float32]
    max_speed: wp.array[wp.float32]
    max_yaw_rate: wp.array[wp.float32]
    hp: wp.array[wp.float32]
    heat_capacity: wp.array[wp.float32]
    dissipation: wp.array[wp.float32]
    tonnage: wp.array[wp.float32]


@wp.struct
@no_type_check
class Field:
    """Constants of the composition and of the rewards."""

    half_side: wp.float32
    limit: wp.int32
    """In decisions."""
    zone_goal_s: wp.float32
    team_size: wp.int32
    gamma: wp.float32
    weights: wp.array[wp.float32]
    """One for every reward component."""


@wp.struct
@no_type_check
class State:
    """What changes, (E,) or (E, N, ...)."""

    seeds: wp.array[wp.int64]
    next_seeds: wp.array[wp.int64]
    row_seeds: wp.array[wp.int64]
    episodes: wp.array[wp.int64]
    ended: wp.array[wp.bool]
    decision: wp.array[wp.int32]
    zone_radius: wp.array[wp.float32]
    zone_s: wp.array2d[wp.float32]
    """Seconds scored by each side (E, 2)."""
    zone_tick: wp.array2d[wp.float32]
    """What each side scored a second in the last decision (E, 2)."""

    position: wp.array2d[wp.vec2]
    origin: wp.array2d[wp.vec2]
    """Position at the start of the tick."""
    proposal: wp.array2d[wp.vec2]
    """Where it would be if nobody stood in the way."""
    velocity: wp.array2d[wp.vec2]
    heading: wp.array2d[wp.vec2]
    hp: wp.array2d[wp.float32]
    heat: wp.array2d[wp.float32]
    laser_ticks: wp.array2d[wp.int32]
    gun_ticks: wp.array2d[wp.int32]
    """Ticks until the weapon may fire again."""
    acted: wp.array2d[wp.bool]
    """Alive when the decision began."""
    powered: wp.array2d[wp.bool]
    """Alive and not shut down in this tick."""
    under_fire: wp.array2d[wp.bool]
    """Hit in the last decision."""
    potential: wp.array2d[wp.float32]

    throttle: wp.array2d[wp.vec2]
    turn: wp.array2d[wp.vec2]
    """Cosine and sine of the turn of one tick."""
    vent: wp.array2d[wp.bool]
    fire_laser: wp.array2d[wp.bool]
    fire_gun: wp.array2d[wp.bool]
    nan_actions: wp.array2d[wp.int64]
    """NaN action floats met so far; each counted as 0."""

    target: wp.array2d[wp.int32]
    """Whom the laser would hit; -1 nobody."""
    aim: wp.array2d[wp.vec2]
    """Where the autocannon would shoot."""
    shots: wp.array2d[wp.int32]
    shell_position: wp.array3d[wp.vec2]
    shell_direction: wp.array3d[wp.vec2]
    shell_reach: wp.array3d[wp.float32]
    """Distance the shell can still fly; 0 where there is none."""
    damage: wp.array3d[wp.float32]
    """Of this tick (E, shooter, target)."""
    heating: wp.array3d[wp.float32]
    dealt: wp.array3d[wp.float32]
    """Hit points taken in this decision (E, shooter, target)."""
    killed: wp.array3d[wp.float32]
    """Share of the killing damage (E, shooter, target)."""


@wp.struct
@no_type_check
class Commands:
    """Actions of one decision."""

    move: wp.array3d[wp.float32]
    trigger: wp.array3d[wp.bool]


@wp.struct
@no_type_check
class Report:
    """What came of one decision."""

    components: wp.array3d[wp.float32]
    reward: wp.array2d[wp.float32]
    terminated: wp.array[wp.bool]
    truncated: wp.array[wp.bool]
    score: wp.array[wp.float64]
    reason: wp.array[wp.int64]
    decisions: wp.array[wp.int64]


@wp.struct
@no_type_check
class View:
    """What every mech perceives."""

    values: wp.array3d[wp.float32]
    move: wp.array3d[wp.bool]
    trigger: wp.array3d[wp.bool]
    active: wp.array2d[wp.bool]
