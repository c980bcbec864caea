"""Who sees whom, and how well."""

from mech_oracle.sensing import pack_paint
from mech_oracle.space import along, closest_fraction, distance, ground_between, way
from mech_oracle.state import Mech, State
from mech_oracle.world import Space

from arena.environments.mech.config.constants import (
    ECCM_WEIGHT,
    EWAR_OPTIONS,
    EWAR_RANGE,
    EYE_SHARE,
    HOT_HEAT,
    JAM_WEIGHT,
    LOCK_QUALITY,
    QUALITY_RANGE,
    RADAR_RANGE,
    SMOKE_RADIUS,
)

ECM, ECCM = EWAR_OPTIONS.index("ecm"), EWAR_OPTIONS.index("eccm")


def look(state: State) -> None:
    """Fill in sights, sensors, and who is seen."""
    state.sight = {}
    for one in state.mechs:
        for other in state.enemies(one) if one.alive else []:
            pair = (one.hull.index, other.hull.index)
            if one.hull.side == 0:
                state.sight[pair] = _sight(state, one, other)
                state.sight[pair[::-1]] = state.sight[pair]
    state.jam = [_strongest(state, mech, ECM, friend=False) for mech in state.mechs]
    state.eccm = [_strongest(state, mech, ECCM, friend=True) for mech in state.mechs]
    low, high = QUALITY_RANGE
    state.quality = [
        min(max(1.0 - JAM_WEIGHT * jam + ECCM_WEIGHT * eccm, low), high)
        for jam, eccm in zip(state.jam, state.eccm, strict=True)
    ]
    state.seen = [
        {enemy.hull.index for enemy in state.enemies(mech) if mech.alive and _seen(state, mech, enemy)}
        for mech in state.mechs
    ]
    if state.world.config.builds > 1 and state.decision > 0:
        for mech, seen in zip(state.mechs, state.seen, strict=True):
            state.recognised |= {(mech.hull.index, j) for j in seen if _recognised(state, mech, state.mechs[j])}


def _recognised(state: State, mech: Mech, enemy: Mech) -> bool:
    if state.world.full_sight:
        return True
    reach = state.world.config.rules.recognition_range
    near = state.edges.at_most(distance(mech.position, enemy.position), reach, "recognition")
    return near and state.clear(mech.hull.index, enemy.hull.index)


def _eyes(mech: Mech) -> Space:
    x, y, z = mech.position
    return x, y, z + EYE_SHARE * mech.hull.type.height


def _sight(state: State, one: Mech, other: Mech) -> tuple[bool, bool]:
    start, end = _eyes(one), _eyes(other)
    grids = None if state.world.flat else state.world.pool.sight
    smoke_free = _smoke_free(state, start, end)
    return smoke_free, smoke_free and not ground_between(state, start, end, grids)


def _smoke_free(state: State, start: Space, end: Space) -> bool:
    step = way(start, end)
    hanging = [cloud.centre for side in state.smoke for cloud in side if cloud.left > 0]
    return not any(
        state.edges.below(
            distance(along(start, step, closest_fraction(start, step, centre)), centre), SMOKE_RADIUS, "smoke"
        )
        for centre in hanging
    )


def _strongest(state: State, mech: Mech, option: int, *, friend: bool) -> float:
    """Nearness of the strongest living, powered emitter of that kind in range."""
    emitters = [
        other
        for other in state.mechs
        if other.alive
        and not other.shut_down
        and other.ewar == option
        and (other.hull.side == mech.hull.side) == friend
    ]
    return max([0.0, *(1.0 - distance(mech.position, other.position) / EWAR_RANGE for other in emitters)])


def _seen(state: State, mech: Mech, enemy: Mech) -> bool:
    if state.world.full_sight:
        return True
    i, j = mech.hull.index, enemy.hull.index
    quality, type_ = state.quality[i], enemy.hull.type
    smoke_free, clear = state.sight[i, j]
    radar = RADAR_RANGE * quality * mech.hull.type.suite.range_factor
    painted = pack_paint(state, mech, enemy) and state.edges.at_most(LOCK_QUALITY, quality, "quality that shows paint")
    near = state.edges.at_most(distance(mech.position, enemy.position), radar, "radar")
    hot = state.edges.below(HOT_HEAT * type_.heat_capacity, enemy.heat, "hot")
    return painted or near or (smoke_free and (hot or enemy.ewar != 0 or clear))
