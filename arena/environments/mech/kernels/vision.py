"""Stage look: lines of sight, and the enemies that each mech sees."""

import warp as wp

from arena.environments.mech.config.constants import (
    ECCM_WEIGHT,
    EWAR_OPTIONS,
    EWAR_RANGE,
    HOT_HEAT,
    JAM_WEIGHT,
    LOCK_QUALITY,
    QUALITY_RANGE,
    RADAR_RANGE,
    SMOKE_RADIUS,
    SMOKE_SLOTS,
)
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.combat.targeting import painted_by_pack
from arena.environments.mech.kernels.geometry import alive, clear_sight, eyes
from arena.environments.mech.kernels.public_features import write_public_features
from arena.environments.mech.kernels.raymarch import is_blocked
from arena.environments.mech.kernels.state import CLEAR, SMOKE_FREE, Field, Hulls, State, Terrain

wp.set_module_options(MODULE_OPTIONS)

ECM, ECCM = EWAR_OPTIONS.index("ecm"), EWAR_OPTIONS.index("eccm")
LEAST_QUALITY, BEST_QUALITY = QUALITY_RANGE


@device_function
def smoke_hangs(state: State, env: int) -> bool:
    """Whether there is any cloud."""
    hangs = wp.bool(False)
    for side in range(2):
        for slot in range(SMOKE_SLOTS):
            hangs = hangs or state.smoke_left[env, side, slot] > 0
    return hangs


@device_function
def smoke_between(state: State, env: int, start: wp.vec3, end: wp.vec3) -> bool:
    """Whether the segment between two points comes nearer than SMOKE_RADIUS to a cloud's centre."""
    middle = (start + end) * 0.5
    span = end - start
    # Two pairs of eyes at one point: never divide by 0.
    per_length = 1.0 / wp.max(wp.dot(span, span), 1.0e-12)
    for side in range(2):
        for slot in range(SMOKE_SLOTS):
            if state.smoke_left[env, side, slot] > 0:
                off = state.smoke_centre[env, side, slot] - middle
                # Measured from the middle of the segment, so that both directions round alike.
                off -= span * wp.clamp(wp.dot(off, span) * per_length, -0.5, 0.5)
                if wp.dot(off, off) < wp.static(SMOKE_RADIUS**2):
                    return True
    return False


@device_function
def ground_hides(state: State, terrain: Terrain, env: int, start: wp.vec3, end: wp.vec3) -> bool:
    """Whether the ground or its foliage is above the line between two pairs of eyes."""
    # Eyes above the highest cell of the map see over everything.
    if terrain.flat or wp.min(start[2], end[2]) >= terrain.highest[state.map[env]]:
        return False
    return is_blocked(terrain, state.map[env], start, end)


@device_function
def view_between(state: State, terrain: Terrain, env: int, smoke: bool, start: wp.vec3, end: wp.vec3) -> int:
    """Value of `State.sight` for two pairs of eyes."""
    if smoke and smoke_between(state, env, start, end):
        return 0
    if ground_hides(state, terrain, env, start, end):
        return SMOKE_FREE
    return CLEAR


@device_function
def look_mech(state: State, hulls: Hulls, terrain: Terrain, field: Field, env: int, mech: int) -> None:
    """Compute the public features of a mech, and the lines of sight between a mech of home and all mechs of away."""
    write_public_features(state, hulls, terrain, env, mech)
    if hulls.side[mech] != 0:
        return
    # Most matches have no smoke, and this check spares the test of every pair.
    smoke = smoke_hangs(state, env)
    watches = alive(state, env, mech)
    own = eyes(state, hulls, env, mech)
    for rank in range(field.team_size):
        other = field.team_size + rank
        found = wp.int32(0)
        if watches and alive(state, env, other):
            found = view_between(state, terrain, env, smoke, own, eyes(state, hulls, env, other))
        # Computed once for both: sight is mutual, and home's mechs write the entries of both directions.
        state.sight[env, mech, other] = wp.uint8(found)
        state.sight[env, other, mech] = wp.uint8(found)


@device_function
def apart_squared(state: State, env: int, mech: int, other: int) -> float:
    """Squared distance between the feet of two mechs."""
    return wp.length_sq(state.position[env, other] - state.position[env, mech])


@device_function
def strongest(state: State, hulls: Hulls, field: Field, env: int, mech: int, option: int, side: int) -> float:
    """Largest effect of an EWAR option on the mech, over the living, powered mechs of a side that use it, in [0, 1]."""
    strength = wp.float32(0.0)
    other = wp.int32(side * field.team_size)
    end = other + field.team_size
    while other < end:
        if (
            state.ewar[env, other] == option
            and alive(state, env, other)
            and state.heat[env, other] <= hulls.heat_capacity[other]
        ):
            strength = wp.max(strength, 1.0 - wp.sqrt(apart_squared(state, env, mech, other)) / EWAR_RANGE)
        other += 1
    return strength


@device_function
def detects(state: State, hulls: Hulls, env: int, mech: int, other: int) -> bool:
    """Whether the mech knows of living enemy in partial mode."""
    view = state.sight[env, mech, other]
    if view == wp.uint8(CLEAR):
        return True
    if view != wp.uint8(0) and (
        state.heat[env, other] > HOT_HEAT * hulls.heat_capacity[other] or state.ewar[env, other] != 0
    ):
        return True
    reach = RADAR_RANGE * state.quality[env, mech] * hulls.range_factor[mech]
    if apart_squared(state, env, mech, other) <= reach * reach:
        return True
    return state.quality[env, mech] >= LOCK_QUALITY and painted_by_pack(state, hulls, env, mech, other)


@device_function
def recognises(state: State, field: Field, env: int, mech: int, other: int) -> bool:
    """Whether the mech recognises the build of an enemy in sight; builds are chosen in the first decision."""
    if state.decision[env] == 0:
        return False
    near = apart_squared(state, env, mech, other) <= field.recognition_range * field.recognition_range
    return field.full_sight or (near and clear_sight(state, env, mech, other))


@device_function
def update_sensors(state: State, hulls: Hulls, field: Field, env: int, mech: int) -> None:
    """Compute a mech's sensor quality and the enemies that it sees; destroyed mechs see none."""
    enemy_side = 1 - hulls.side[mech]
    listens = alive(state, env, mech)
    if listens:
        jam = strongest(state, hulls, field, env, mech, ECM, enemy_side)
        eccm = strongest(state, hulls, field, env, mech, ECCM, hulls.side[mech])
        state.jam[env, mech] = jam
        state.eccm[env, mech] = eccm
        state.quality[env, mech] = wp.clamp(1.0 - JAM_WEIGHT * jam + ECCM_WEIGHT * eccm, LEAST_QUALITY, BEST_QUALITY)
    other = wp.int32(enemy_side * field.team_size)
    end = other + field.team_size
    while other < end:
        state.seen[env, mech, other] = (
            listens and alive(state, env, other) and (field.full_sight or detects(state, hulls, env, mech, other))
        )
        if field.builds > 1 and state.seen[env, mech, other] and recognises(state, field, env, mech, other):
            state.recognised[env, mech, other] = True
        other += 1
