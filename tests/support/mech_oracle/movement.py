"""Heat, balance and movement of a tick."""

from mech_oracle.orders import VENT
from mech_oracle.space import from_frame, length, turned
from mech_oracle.state import NOBODY, Mech, State, single

from arena.environments.mech.config.chassis import STABILITY
from arena.environments.mech.config.constants import (
    CEILING,
    DRAG,
    EWAR_HEAT,
    FOOT_CLEARANCE,
    GRAVITY,
    HAZARD_DAMAGE,
    HAZARD_HEAT,
    LEAST_REGENERATION,
    LEGGED_JETS,
    LEGGED_PENALTY,
    LEGGED_SPEED,
    LEGGED_STABILITY,
    MOVING_PENALTY,
    MOVING_SPEED,
    STABILITY_REGENERATION,
    STANDING_STABILITY,
    STEP_UP,
    STEP_UP_SPEED,
    SUPPRESSED_PENALTY,
    TICK_S,
    VENT_FACTOR,
    WATER,
    WATER_SPEED,
)

MATERIALS = ("plain", "water", "lava", "debris", "foliage", "glass")


def integrate(state: State) -> None:
    """Let everybody cool, recover and want to go on."""
    for mech in state.mechs:
        mech.origin, mech.proposal, mech.powered, mech.burn = mech.position, mech.position[:2], False, 0.0
        if mech.alive:
            mech.powered = state.edges.at_most(mech.heat, mech.hull.type.heat_capacity, "shutdown")
            fallen = mech.fallen
            _count_down(mech)
            state.happened["stands up"] += fallen and not mech.fallen
            material = _underfoot(state, mech)
            state.happened[f"in {MATERIALS[material]}"] += 1
            mech.burn = HAZARD_DAMAGE[material] * TICK_S
            mech.heat = _cooled(mech, material)
            if not mech.fallen:
                mech.stability = _steadied(state, mech)
            _drive(state, mech, material)


def _count_down(mech: Mech) -> None:
    mech.timers = [max(ticks - 1, 0) for ticks in mech.timers]
    mech.suppressed_ticks = max(mech.suppressed_ticks - 1, 0)
    mech.ams_ticks = max(mech.ams_ticks - 1, 0)
    mech.painted_ticks = max(mech.painted_ticks - 1, 0)
    if mech.painted_ticks == 0:
        mech.painted_by = NOBODY
    if mech.fallen:
        mech.fallen_ticks -= 1
        if not mech.fallen:
            mech.stability = STANDING_STABILITY


def _underfoot(state: State, mech: Mech) -> int:
    """What its feet stand in; plain where they do not stand."""
    x, y, z = mech.position
    standing = state.edges.at_most(z - state.ground(mech, x, y), FOOT_CLEARANCE, "feet on the ground")
    return state.material(x, y) if standing else 0


def _cooled(mech: Mech, material: int) -> float:
    venting = mech.powered and mech.pulled[VENT]
    gain = -mech.hull.type.dissipation * (VENT_FACTOR if venting else 1.0) + HAZARD_HEAT[material]
    gain += EWAR_HEAT[mech.ewar] if mech.powered else 0.0
    return max(single(mech.heat + single(gain * TICK_S)), 0.0)


def _steadied(state: State, mech: Mech) -> float:
    moving = not state.edges.at_most(length(mech.velocity[:2]), MOVING_SPEED, "moving")
    penalty = LEGGED_PENALTY * mech.legged + MOVING_PENALTY * moving + SUPPRESSED_PENALTY * mech.suppressed
    gain = STABILITY_REGENERATION * max(LEAST_REGENERATION, 1.0 - penalty) * TICK_S
    return min(mech.stability + gain, STABILITY * (LEGGED_STABILITY if mech.legged else 1.0))


def _drive(state: State, mech: Mech, material: int) -> None:
    able = mech.powered and not mech.fallen
    across = (0.0, 0.0)
    if able:
        mech.heading = turned(mech.heading, mech.yaw)
        speed = mech.hull.type.max_speed * DRAG * (LEGGED_SPEED if mech.legged else 1.0)
        speed *= WATER_SPEED if material == WATER else 1.0
        across = from_frame(speed * mech.throttle[0], speed * mech.throttle[1], mech.heading)
    jets = mech.lift * mech.hull.type.jet_acceleration * (LEGGED_JETS if mech.legged else 1.0) if able else 0.0
    up = (mech.velocity[2] + (jets - GRAVITY) * TICK_S) * DRAG
    mech.velocity = (*across, up)
    edge = state.world.half - mech.hull.type.width / 2.0
    mech.proposal = tuple(min(max(mech.position[axis] + mech.velocity[axis] * TICK_S, -edge), edge) for axis in (0, 1))


def collide(state: State) -> None:
    """Move everybody as far as mechs and ground let it."""
    living = [mech for mech in state.mechs if mech.alive]
    solid = [mech for mech in state.mechs if mech.alive or mech.wreck]
    barred = [{axis for other in solid if (axis := _axis_barred(state, mech, other)) is not None} for mech in living]
    for mech, axes in zip(living, barred, strict=True):
        _move(state, mech, axes)


def _axis_barred(state: State, mech: Mech, other: Mech) -> int | None:
    """Axis along which the other mech or wreck is in the way."""
    if other is mech:
        return None
    reach = 0.5 * (mech.hull.type.width + other.hull.type.width)
    ahead = [other.proposal[axis] - mech.proposal[axis] for axis in (0, 1)]
    if max(abs(part) for part in ahead) > 2.0 * reach or not _level(state, mech, other):
        return None
    if not all(state.edges.below(abs(part), reach, "boxes") for part in ahead):
        return None
    before = [other.origin[axis] - mech.origin[axis] for axis in (0, 1)]
    axis = 1 if state.edges.below(abs(before[0]), abs(before[1]), "axis of a bump") else 0
    towards = (mech.proposal[axis] - mech.origin[axis]) * before[axis] > 0.0
    closer = towards and abs(ahead[axis]) < abs(before[axis])
    if 0.0 < abs(abs(ahead[axis]) - abs(before[axis])) < 1e-5:
        state.edges.met.append("closing in")
    state.happened["bump" if other.alive else "bump into a wreck"] += closer
    return axis if closer else None


def _level(state: State, mech: Mech, other: Mech) -> bool:
    """Whether both boxes are at one height."""
    top = mech.origin[2] + mech.hull.type.height
    other_top = other.origin[2] + other.hull.type.height * (1.0 if other.alive else 0.5)
    return state.edges.below(mech.origin[2], other_top, "over") and state.edges.below(other.origin[2], top, "under")


def _move(state: State, mech: Mech, barred: set[int]) -> None:
    place, velocity = list(mech.origin), list(mech.velocity)
    step = STEP_UP if state.edges.below(abs(velocity[2]), STEP_UP_SPEED, "stepping up") else 0.0
    for axis in (0, 1):
        there = place[:2]
        there[axis] = mech.proposal[axis]
        wall = state.ground(mech, *there)
        climbable = state.edges.at_most(wall, place[2] + step, "wall")
        state.happened["wall"] += not climbable
        if axis in barred or not climbable:
            velocity[axis] = 0.0
        else:
            place[axis] = there[axis]
    place[2] += velocity[2] * TICK_S
    ground = state.ground(mech, *place[:2])
    if state.edges.at_most(place[2], ground, "landing"):
        place[2], velocity[2] = float(ground), 0.0
    elif not state.edges.at_most(place[2], CEILING, "ceiling"):
        place[2], velocity[2] = CEILING, min(velocity[2], 0.0)
        state.happened["ceiling"] += 1
    mech.position, mech.velocity = tuple(place), tuple(velocity)
