"""Everything that a batch of matches is, as structs of arrays shared between Warp and torch.

E matches, N mechs (home first, pack by pack), W weapons in the order of `armament.WEAPONS`, K contact slots, M maps of
G x G cells.
"""

import warp as wp

AHEAD, HOLD = -1, -2
"""Values of `State.shot` without a target: fire straight ahead, do not fire."""

SMOKE_FREE, GROUND_FREE = 1, 2
CLEAR = SMOKE_FREE + GROUND_FREE
"""Bits of `State.sight`, and their combination."""

COVER_CELLS = 2
"""Radius in cells of the maximum in `Terrain.cover`."""


@wp.struct
class Hulls:
    """Constants of each of the N mechs, by class and index, (N,), and of their B builds, (B N,).

    Row `build * N + mech` of the latter is that mech with that build; see `State.built`.
    """

    side: wp.array[wp.int32]
    """0 home, 1 away."""
    slot_in_team: wp.array[wp.int32]
    """Index within the side."""
    pack: wp.array[wp.int32]
    """Pack, counted over both sides."""
    rng_id: wp.array[wp.int32]
    """Key of its random numbers."""
    chassis: wp.array[wp.int32]
    """Class, in the order of CLASSES."""
    ground: wp.array[wp.int32]
    """Which layer of `Terrain.ground` it walks on."""
    width: wp.array[wp.float32]
    height: wp.array[wp.float32]
    hit_radius: wp.array[wp.float32]
    max_speed: wp.array[wp.float32]
    """(B N,), as for hit points."""
    max_yaw_rate: wp.array[wp.float32]
    jet_acceleration: wp.array[wp.float32]
    hp: wp.array[wp.float32]
    leg_hp: wp.array[wp.float32]
    heat_capacity: wp.array[wp.float32]
    dissipation: wp.array[wp.float32]
    tonnage: wp.array[wp.float32]
    acoustic_mass: wp.array[wp.float32]
    wreck_chance: wp.array[wp.float32]
    ewar: wp.array[wp.bool]
    ams: wp.array[wp.bool]
    missiles: wp.array[wp.bool]
    """Whether any of its builds has missiles; without one, its shells need no search."""
    slots: wp.array[wp.int32]
    range_factor: wp.array[wp.float32]
    fidelity: wp.array[wp.float32]
    longest_wait: wp.array2d[wp.int32]
    """(B N, 4) most ticks that each of its timers can hold, at least 1."""
    trigger: wp.array2d[wp.int32]
    """(B N, W) which trigger fires the weapon; -1 if the mech does not carry it."""
    carried: wp.array2d[wp.int32]
    """(B N, W + 1) the weapons that the mech carries, in their order, then -1."""


@wp.struct
class Arms:
    """Constant rows: the W weapons."""

    range: wp.array[wp.float32]
    damage: wp.array[wp.float32]
    stability_damage: wp.array[wp.float32]
    heat: wp.array[wp.float32]
    target_heat: wp.array[wp.float32]
    cooldown_ticks: wp.array[wp.int32]
    timer: wp.array[wp.int32]
    half_arc_cosine: wp.array[wp.float32]
    speed: wp.array[wp.float32]
    splash_radius: wp.array[wp.float32]
    splash_scale: wp.array[wp.float32]


@wp.struct
class Terrain:
    """The pool of maps. Heights are in whole metres; every map equals itself after half a turn."""

    flat: wp.bool
    """Whether the ground is open; then only `spawn` of the arrays below is read."""
    cells: wp.int32
    """G, even."""
    solid: wp.array3d[wp.uint8]
    """(M, G, G) height of the ground, and of glass; index [map, row, column], row along y, column along x."""
    sight: wp.array3d[wp.uint8]
    """(M, G, G) height up to which a cell blocks the sight."""
    cover: wp.array3d[wp.uint8]
    """(M, G, G) highest `sight` of the cells at most COVER_CELLS columns and rows away."""
    material: wp.array3d[wp.uint8]
    ground: wp.array4d[wp.uint8]
    """(layers, M, G, G) highest `solid` under the footprint of a mech in the cell."""
    route: wp.array3d[wp.vec3]
    """(M, G, G) first step of the path to the centre on foot (unit x, y), and the path's length in metres."""
    highest: wp.array[wp.float32]
    """(M,) highest of `solid` and `sight`."""
    spawn: wp.array[wp.vec2]
    """(M,) centre of home's formation; away's is its negative."""


@wp.struct
class Field:
    """Constants of the composition and of the rewards."""

    half_side: wp.float32
    limit: wp.int32
    """In decisions."""
    zone_goal_s: wp.float32
    team_size: wp.int32
    mates: wp.int32
    """Number of mate slots in an observation."""
    full_sight: wp.bool
    """Whether all living mechs are observed exactly."""
    has_ewar: wp.bool
    """The action has a head `ewar`."""
    has_comms: wp.bool
    """The action has a head `comm`."""
    column_contacts: wp.int32
    """First column of the block `contacts` in a row of `View.values`; -1, here and below, where there is none."""
    column_contact_mask: wp.int32
    column_pack: wp.int32
    column_pack_mask: wp.int32
    column_comms: wp.int32
    column_local_map: wp.int32
    column_build: wp.int32
    column_contact_builds: wp.int32
    column_pack_builds: wp.int32
    builds: wp.int32
    """B, number of builds of each mech."""
    recognition_range: wp.float32
    """Largest distance in metres at which a clear sight shows the build of an enemy."""
    zone_breaks_ties: wp.bool
    """Whether zone seconds decide a match in which both sides fall at once."""
    speed_spread: wp.float32
    """Largest error of aim in radians for every m/s of the shooter."""
    heat_spread: wp.float32
    """The same at full heat."""
    gamma: wp.float32
    weights: wp.array[wp.float32]
    """One for every reward component."""


@wp.struct
class State:
    """Variable state, (E, ...) or (E, N, ...)."""

    seeds: wp.array[wp.int64]
    next_seeds: wp.array[wp.int64]
    row_seeds: wp.array[wp.int64]
    episodes: wp.array[wp.int64]
    ended: wp.array[wp.bool]
    decision: wp.array[wp.int32]
    tick: wp.array[wp.int32]
    """Ticks that the match had lasted when the decision began; after `score`, when it ended."""
    map: wp.array[wp.int32]
    zone_radius: wp.array[wp.float32]
    zone_s: wp.array2d[wp.float32]
    """Seconds scored by each side (E, 2)."""
    zone_tick: wp.array2d[wp.float32]
    """(E, 2) score per second of each side in the last decision."""
    smoke_centre: wp.array3d[wp.vec3]
    """(E, 2, SMOKE_SLOTS)"""
    smoke_left: wp.array3d[wp.int32]
    """(E, 2, SMOKE_SLOTS) remaining decisions of the cloud; 0 for an empty slot."""
    smoke_count: wp.array2d[wp.int32]
    """(E, 2) clouds launched so far."""

    fire_probability: wp.array2d[wp.float32]
    """(E, 2) probability that a trigger of the side counts; set by the curriculum."""
    mechs: wp.array[wp.int32]
    """(E,) mechs per side in the next match; set by the curriculum."""
    maps: wp.array[wp.int32]
    """(E,) the next match's map is one of so many, the easiest first; the curriculum's."""
    own_share: wp.array[wp.float32]
    """(E,) alpha of the rewards; the curriculum's."""

    position: wp.array2d[wp.vec3]
    """Centre of the feet."""
    origin: wp.array2d[wp.vec3]
    """Position at the start of the tick."""
    proposal: wp.array2d[wp.vec2]
    """Position without collisions."""
    velocity: wp.array2d[wp.vec3]
    heading: wp.array2d[wp.vec2]
    built: wp.array2d[wp.int32]
    """Row of the mech with its build in `Hulls`."""
    recognised: wp.array3d[wp.bool]
    """(E, viewer, N) whether the viewer knows the build of that enemy; only written if there are several."""
    hp: wp.array2d[wp.float32]
    leg_hp: wp.array2d[wp.float32]
    heat: wp.array2d[wp.float32]
    stability: wp.array2d[wp.float32]
    timers: wp.array3d[wp.int32]
    """(E, N, 4) ticks until a weapon of that timer may fire again."""
    fallen_ticks: wp.array2d[wp.int32]
    suppressed_ticks: wp.array2d[wp.int32]
    painted_ticks: wp.array2d[wp.int32]
    painted_by: wp.array2d[wp.int32]
    """Index of the mech that painted it; -1 for none."""
    ams_ticks: wp.array2d[wp.int32]
    wreck: wp.array2d[wp.bool]
    """Whether the destroyed mech left a wreck."""
    acted: wp.array2d[wp.bool]
    """Alive when the decision began."""
    powered: wp.array2d[wp.bool]
    """Alive and not shut down in this tick."""

    throttle: wp.array2d[wp.vec2]
    lift: wp.array2d[wp.float32]
    turn: wp.array2d[wp.vec2]
    """Cosine and sine of the turn of one tick."""
    fire_allowed: wp.array2d[wp.bool]
    """Whether the triggers of this decision count."""
    focus: wp.array2d[wp.int32]
    """Index of its chosen target; -1 for none."""
    ewar: wp.array2d[wp.int32]
    """Option in force, of EWAR_OPTIONS."""
    comm: wp.array3d[wp.float32]
    """(E, N, 8) its last message."""
    nan_actions: wp.array2d[wp.int64]
    """Number of NaN actions so far; each counted as 0."""

    shot: wp.array3d[wp.int32]
    """(E, N, W) target of the weapon in this tick; AHEAD fires straight ahead, HOLD does not fire."""
    fires: wp.array2d[wp.bool]
    """Whether any of its weapons fires in this tick."""
    intercept: wp.array2d[wp.int32]
    """Missile that its anti-missile system shoots down in this tick, owner * SHELL_SLOTS + slot; -1 for none."""
    shell_position: wp.array3d[wp.vec3]
    """(E, N, SHELL_SLOTS)"""
    shell_velocity: wp.array3d[wp.vec3]
    shell_reach: wp.array3d[wp.float32]
    """Remaining reach of the shell; 0 for an empty slot."""
    shell_weapon: wp.array3d[wp.int32]
    """Weapon of the shell."""
    shell_target: wp.array3d[wp.int32]
    """Mech that a missile flies to."""
    has_hits: wp.array2d[wp.bool]
    """Whether its rows of the next five arrays hold anything; they are cleared when they are not 0."""
    damage: wp.array3d[wp.float32]
    """Of this tick (E, shooter, target)."""
    leg_damage: wp.array3d[wp.float32]
    stability_damage: wp.array3d[wp.float32]
    heating: wp.array3d[wp.float32]
    suppressed_now: wp.array3d[wp.bool]
    """Suppressed in this tick (E, shooter, target)."""
    burn: wp.array2d[wp.float32]
    """Damage that the ground does in this tick."""

    has_stats: wp.array2d[wp.bool]
    """Whether its rows of `dealt`, `killed` and `assists` may be nonzero.

    Set when it hurts a mech, or when a mech that it painted is destroyed.
    """
    dealt: wp.array3d[wp.float32]
    """Hit points taken in this decision (E, shooter, target)."""
    killed: wp.array3d[wp.float32]
    """Share of the killing damage in this decision (E, shooter, target)."""
    terrain_damage: wp.array2d[wp.float32]
    """Hit points lost to the ground in this decision."""
    raw_damage: wp.array3d[wp.float32]
    """(E, N, W) damage of the hits on enemies in this decision, before it is limited to the remaining hit points."""
    hitscan_hits: wp.array3d[wp.int32]
    """(E, N, W) last mech that a hitscan weapon hit in this decision; -1 for none."""
    intercepted: wp.array2d[wp.int32]
    """Missiles that its anti-missile system shot down in this decision."""
    assists: wp.array3d[wp.float32]
    """(E, painter, target) share of the killing damage that pack mates dealt to a painted target."""
    paints: wp.array2d[wp.int32]
    """Enemies newly painted in this decision, less 1 if newly painted itself."""
    hurt_from: wp.array2d[wp.vec2]
    """Sum over this decision of the directions to shooters, weighted with the damage."""
    potential: wp.array2d[wp.float32]
    own_reward: wp.array2d[wp.float32]

    sight: wp.array3d[wp.uint8]
    """(E, N, N) bits of the line between the eyes of two enemies.

    SMOKE_FREE without smoke between them, plus GROUND_FREE if no ground is either; 0 between friends and for destroyed
    mechs.
    """
    seen: wp.array3d[wp.bool]
    """(E, viewer, N) whether the viewer knows of that enemy."""
    public_features: wp.array3d[wp.float32]
    """(E, N, CONTACT_FEATURES) features that are equal for all viewers; 0 for others and for destroyed mechs."""
    loudness: wp.array2d[wp.float32]
    """Speed times acoustic mass, at the last look."""
    quality: wp.array2d[wp.float32]
    jam: wp.array2d[wp.float32]
    eccm: wp.array2d[wp.float32]
    contact: wp.array3d[wp.int32]
    """(E, N, K) mech in each contact slot of the last observation; -1 for none."""


@wp.struct
class Commands:
    """Actions of one decision."""

    move: wp.array3d[wp.float32]
    trigger: wp.array3d[wp.bool]
    target: wp.array2d[wp.int64]
    ewar: wp.array2d[wp.int64]
    build: wp.array2d[wp.int64]
    comm: wp.array3d[wp.float32]


@wp.struct
class Report:
    """Result of one decision."""

    components: wp.array3d[wp.float32]
    """Weighted reward components of each mech, before rewards are shared within the side."""
    reward: wp.array2d[wp.float32]
    terminated: wp.array[wp.bool]
    truncated: wp.array[wp.bool]
    score: wp.array[wp.float64]
    reason: wp.array[wp.int64]
    decisions: wp.array[wp.int64]


@wp.struct
class View:
    """Observation of every mech, with its action masks."""

    values: wp.array3d[wp.float32]
    move: wp.array3d[wp.bool]
    trigger: wp.array3d[wp.bool]
    target: wp.array3d[wp.bool]
    ewar: wp.array3d[wp.bool]
    build: wp.array3d[wp.bool]
    comm: wp.array3d[wp.bool]
    active: wp.array2d[wp.bool]
