"""The start of a match."""

import math

from mech_oracle import chance
from mech_oracle.space import turned, unit
from mech_oracle.state import Books, Mech, State
from mech_oracle.world import Plane, World

from arena.environments.mech.config.constants import (
    SPAWN_COLUMNS,
    SPAWN_JITTER,
    SPAWN_JITTER_RAD,
    SPAWN_PITCH,
    ZONE_RADIUS,
)


def open_match(world: World, seed: int, *, maps: int, mechs: int) -> State:
    """Place everybody on one of the first `maps` maps; so many `mechs` of a side take part."""
    state = State(
        world,
        seed,
        map=math.floor(chance.uniform(seed, chance.MAP, 0, 0) * maps),
        zone_radius=ZONE_RADIUS * (0.5 + chance.uniform(seed, chance.ZONE, 0, 0)),
        mechs=[],
        books=Books(len(world.hulls)),
    )
    for hull in world.hulls:
        (x, y), heading = _place(state, hull.rank, -1.0 if hull.side else 1.0)
        taking_part = hull.rank < mechs
        mech = Mech(hull, (x, y, 0.0), heading, hull.type.hp * taking_part, hull.type.leg_hp * taking_part)
        mech.position = (x, y, float(state.ground(mech, x, y)))
        state.mechs.append(mech)
    return state


def _place(state: State, rank: int, sign: float) -> tuple[Plane, Plane]:
    """Place and heading of home's mech of that rank, or of away's with the sign -1."""
    world, seed = state.world, state.seed
    spawn = tuple(float(part) for part in world.pool.spawn[state.map])
    outward = unit(spawn)
    left = (-outward[1], outward[0])
    row, column = divmod(rank, SPAWN_COLUMNS)
    size = len(world.config.team)
    rows = math.ceil(size / SPAWN_COLUMNS)
    in_row = min(SPAWN_COLUMNS, size - row * SPAWN_COLUMNS)
    sideways = (column - (in_row - 1) / 2) * SPAWN_PITCH
    sideways += SPAWN_JITTER * chance.either_way(seed, chance.SIDEWAYS, 0, rank)
    depth = (row - (rows - 1) / 2) * SPAWN_PITCH + SPAWN_JITTER * chance.either_way(seed, chance.DEPTH, 0, rank)
    x, y = (spawn[axis] + sideways * left[axis] + depth * outward[axis] for axis in (0, 1))
    turn = SPAWN_JITTER_RAD * chance.either_way(seed, chance.HEADING, 0, rank)
    heading = turned((-outward[0], -outward[1]), turn)
    return (sign * x, sign * y), (sign * heading[0], sign * heading[1])
