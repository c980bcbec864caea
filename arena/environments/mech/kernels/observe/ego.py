"""Blocks condition, heat, hull, motion, zone, edge and score: a mech, and the match around it."""

import warp as wp

from arena.environments.mech.config.chassis import CLASSES, STABILITY
from arena.environments.mech.config.constants import AMS_TICKS, CRITICAL_HEAT, TARGETED_RANGE
from arena.environments.mech.config.weapons import SHELL_SLOTS, TIMERS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.columns import (
    CONDITION,
    EDGE,
    HEAT,
    HULL,
    MOTION,
    SCORE,
    ZONE,
    columns,
    flag,
    heat_share,
    share,
    signed,
)
from arena.environments.mech.kernels.combat.targeting import MISSILE
from arena.environments.mech.kernels.geometry import alive, clear_sight, plane, shut_down, to_frame
from arena.environments.mech.kernels.ground import path_length, route_step
from arena.environments.mech.kernels.public_features import IN_ZONE
from arena.environments.mech.kernels.state import Field, Hulls, State, Terrain
from arena.environments.mech.kernels.vision import ECCM, ECM, apart_squared
from arena.environments.mech.observation_spec import CONDITION_FEATURES, HULL_FEATURES, SPEED_SCALE

wp.set_module_options(MODULE_OPTIONS)


@device_function
def under_fire(state: State, env: int, mech: int) -> bool:
    """Whether a mech lost hit points in the last decision."""
    hurt = wp.bool(state.terrain_damage[env, mech] > 0.0)
    other = wp.int32(0)
    while other < state.hp.shape[1]:
        hurt = hurt or (state.has_stats[env, other] and state.dealt[env, other, mech] > 0.0)
        other += 1
    return hurt


@device_function
def targeted(state: State, hulls: Hulls, field: Field, env: int, mech: int) -> bool:
    """Whether a living enemy is near, in clear sight."""
    other = wp.int32(field.team_size * (1 - hulls.side[mech]))
    end = other + field.team_size
    while other < end:
        near = clear_sight(state, env, mech, other) and apart_squared(state, env, mech, other) <= wp.static(
            TARGETED_RANGE**2
        )
        if near and alive(state, env, other):
            return True
        other += 1
    return False


@device_function
def hunted(state: State, hulls: Hulls, field: Field, env: int, mech: int) -> bool:
    """Whether an enemy missile has the mech as its target."""
    other = wp.int32(field.team_size * (1 - hulls.side[mech]))
    end = other + field.team_size
    while other < end:
        # Other mechs have no missiles, and searching their shells would take most of the time.
        if hulls.missiles[other]:
            for slot in range(SHELL_SLOTS):
                flies = state.shell_reach[env, other, slot] > 0.0 and state.shell_weapon[env, other, slot] == MISSILE
                if flies and state.shell_target[env, other, slot] == mech:
                    return True
        other += 1
    return False


HP, LEG_HP, STANDING, SHUTDOWN, HEAT_CRITICAL, FALLEN, LEGGED = columns(
    CONDITION, CONDITION_FEATURES, "hp leg_hp stability shutdown heat_critical fallen legged"
)
UNDER_FIRE, TARGETED, PAINTED, INBOUND, SUPPRESSED, HOLDS, OWN_ECM, OWN_ECCM = columns(
    CONDITION, CONDITION_FEATURES, "under_fire targeted painted missile_inbound suppressed in_zone ecm eccm"
)
FIRST_TIMER, AMS_TIMER = columns(CONDITION, CONDITION_FEATURES, f"{TIMERS[0]}_timer ams_timer")
FIRST_CHASSIS, SLOTS, RANGE, FIDELITY = columns(HULL, HULL_FEATURES, f"{next(iter(CLASSES))} slots range fidelity")
MOST_SLOTS = 20.0
LEAST_RANGE, RANGE_SPAN = 0.8, 0.7


@device_function
def write_condition(state: State, hulls: Hulls, field: Field, row: wp.array[wp.float32], env: int, mech: int) -> None:
    """Blocks condition and heat."""
    heat = heat_share(state, hulls, env, mech)
    built = state.built[env, mech]
    row[HEAT] = heat
    row[HP] = share(state.hp[env, mech], hulls.hp[built])
    row[LEG_HP] = share(state.leg_hp[env, mech], hulls.leg_hp[built])
    row[STANDING] = share(state.stability[env, mech], STABILITY)
    row[SHUTDOWN] = flag(shut_down(state, hulls, env, mech))
    row[HEAT_CRITICAL] = flag(heat > CRITICAL_HEAT)
    row[FALLEN] = flag(state.fallen_ticks[env, mech] > 0)
    row[LEGGED] = flag(state.leg_hp[env, mech] <= 0.0)
    row[UNDER_FIRE] = flag(under_fire(state, env, mech))
    row[TARGETED] = flag(targeted(state, hulls, field, env, mech))
    row[PAINTED] = flag(state.painted_ticks[env, mech] > 0)
    row[INBOUND] = flag(hunted(state, hulls, field, env, mech))
    row[SUPPRESSED] = flag(state.suppressed_ticks[env, mech] > 0)
    row[HOLDS] = state.public_features[env, mech, IN_ZONE]
    row[OWN_ECM] = flag(state.ewar[env, mech] == ECM)
    row[OWN_ECCM] = flag(state.ewar[env, mech] == ECCM)
    for k in range(wp.static(len(TIMERS))):
        row[FIRST_TIMER + k] = share(float(state.timers[env, mech, k]), float(hulls.longest_wait[built, k]))
    row[AMS_TIMER] = share(float(state.ams_ticks[env, mech]), wp.static(float(AMS_TICKS)))


@device_function
def write_hull(hulls: Hulls, row: wp.array[wp.float32], mech: int) -> None:
    """Block hull."""
    for k in range(wp.static(len(CLASSES))):
        row[FIRST_CHASSIS + k] = flag(hulls.chassis[mech] == k)
    row[SLOTS] = share(float(hulls.slots[mech]), MOST_SLOTS)
    row[RANGE] = share(hulls.range_factor[mech] - LEAST_RANGE, RANGE_SPAN)
    row[FIDELITY] = hulls.fidelity[mech]


@device_function
def write_motion(state: State, row: wp.array[wp.float32], env: int, mech: int) -> None:
    """Block motion."""
    velocity = state.velocity[env, mech]
    heading = state.heading[env, mech]
    motion = to_frame(plane(velocity), heading)
    hurt = to_frame(wp.normalize(state.hurt_from[env, mech]), heading)
    row[MOTION] = signed(motion[0] / SPEED_SCALE)
    row[MOTION + 1] = signed(motion[1] / SPEED_SCALE)
    row[MOTION + 2] = signed(velocity[2] / SPEED_SCALE)
    row[MOTION + 3] = signed(hurt[0])
    row[MOTION + 4] = signed(hurt[1])


@device_function
def write_zone(state: State, terrain: Terrain, field: Field, row: wp.array[wp.float32], env: int, mech: int) -> None:
    """Block zone."""
    side = 2.0 * field.half_side
    position = plane(state.position[env, mech])
    heading = state.heading[env, mech]
    centre = to_frame(-position, heading)
    step = to_frame(route_step(state, terrain, env, position), heading)
    row[ZONE] = signed(centre[0] / side)
    row[ZONE + 1] = signed(centre[1] / side)
    row[ZONE + 2] = share(state.zone_radius[env], side)
    row[ZONE + 3] = signed(step[0])
    row[ZONE + 4] = signed(step[1])
    row[ZONE + 5] = share(path_length(state, terrain, env, position) - state.zone_radius[env], 2.0 * side)


@device_function
def to_edge(field: Field, position: wp.vec2, direction: wp.vec2, per_metre: wp.vec2) -> float:
    """Distance from a position to the map's edge in a direction, over its side; `per_metre` is 1 / |direction|."""
    reach = wp.float32(4.0 * field.half_side)
    for axis in range(2):
        room = field.half_side - wp.where(direction[axis] < 0.0, -position[axis], position[axis])
        reach = wp.min(reach, room * per_metre[axis])
    return share(reach, 2.0 * field.half_side)


@device_function
def write_edge(state: State, field: Field, row: wp.array[wp.float32], env: int, mech: int) -> None:
    """Block edge."""
    position = plane(state.position[env, mech])
    ahead = state.heading[env, mech]
    left = wp.vec2(-ahead[1], ahead[0])
    # A ray along one axis never meets the edges of the other: the floor makes that distance large, not infinite.
    per_x = 1.0 / wp.max(wp.abs(ahead[0]), 1.0e-6)
    per_y = 1.0 / wp.max(wp.abs(ahead[1]), 1.0e-6)
    row[EDGE] = to_edge(field, position, ahead, wp.vec2(per_x, per_y))
    row[EDGE + 1] = to_edge(field, position, left, wp.vec2(per_y, per_x))
    row[EDGE + 2] = to_edge(field, position, -ahead, wp.vec2(per_x, per_y))
    row[EDGE + 3] = to_edge(field, position, -left, wp.vec2(per_y, per_x))


@device_function
def write_score(state: State, hulls: Hulls, field: Field, row: wp.array[wp.float32], env: int, mech: int) -> None:
    """Block score."""
    own = hulls.side[mech]
    row[SCORE] = state.zone_tick[env, own]
    row[SCORE + 1] = state.zone_tick[env, 1 - own]
    row[SCORE + 2] = share(state.zone_s[env, own], field.zone_goal_s)
    row[SCORE + 3] = share(state.zone_s[env, 1 - own], field.zone_goal_s)
    row[SCORE + 4] = share(float(state.decision[env]), float(field.limit))


@device_function
def write_ego(
    state: State, hulls: Hulls, terrain: Terrain, field: Field, row: wp.array[wp.float32], env: int, mech: int
) -> None:
    """All blocks of this module."""
    if field.column_build >= 0 and state.decision[env] > 0:
        row[field.column_build + state.built[env, mech] // state.hp.shape[1]] = 1.0
    write_condition(state, hulls, field, row, env, mech)
    write_hull(hulls, row, mech)
    write_motion(state, row, env, mech)
    write_zone(state, terrain, field, row, env, mech)
    write_edge(state, field, row, env, mech)
    write_score(state, hulls, field, row, env, mech)
