"""What a mech hears, and the ground round it."""

import math

import numpy as np
from mech_oracle.space import length, to_frame
from mech_oracle.state import Mech, State

from arena.environments.mech.config.constants import (
    DEBRIS,
    HIDDEN_NOISE,
    LAVA,
    LOCAL_MAP_CELLS,
    LOCAL_MAP_PITCH,
    LOCAL_MAP_RISE,
    WATER,
)

EITHER = math.nan
"""Stands where an entry lies on an edge and may hold one value or another."""
HAZARDS = {WATER: -0.25, DEBRIS: -0.5, LAVA: -1.0}


def noise(state: State, mech: Mech) -> list[float]:
    """How loud enemies are ahead, to the left, behind and to the right."""
    heard = [0.0] * 4
    for enemy in state.enemies(mech):
        x, y, z = (there - here for there, here in zip(enemy.position, mech.position, strict=True))
        loud = length(enemy.velocity) * enemy.hull.type.acoustic_mass / (1.0 + x * x + y * y + z * z)
        ahead, left = to_frame((x, y), mech.heading)
        if loud > 0.0 and abs(abs(ahead) - abs(left)) < 1e-4 * (abs(ahead) + abs(left)):
            state.edges.met.append("quarter of a noise")
        quarter = (0 if ahead > 0.0 else 2) if abs(ahead) >= abs(left) else (1 if left > 0.0 else 3)
        heard[quarter] += loud * (1.0 if state.clear(mech.hull.index, enemy.hull.index) else HIDDEN_NOISE)
    return [min(math.log1p(loud) / 5.0, 1.0) for loud in heard]


def local_map(state: State, mech: Mech) -> np.ndarray:
    world, (x, y, z) = state.world, mech.position
    offsets = (np.arange(LOCAL_MAP_CELLS) - LOCAL_MAP_CELLS // 2) * LOCAL_MAP_PITCH
    ahead, left = (grid.ravel() for grid in np.meshgrid(offsets, offsets, indexing="ij"))
    px = x + ahead * mech.heading[0] - left * mech.heading[1]
    py = y + ahead * mech.heading[1] + left * mech.heading[0]
    ground = world.pool.ground[world.pool.footprints.index(mech.hull.type.footprint)][state.map]
    heights, materials = (world.heights(grid, px, py) for grid in (ground, world.pool.material[state.map]))
    hazards = np.array([HAZARDS.get(int(material), 0.0) for material in materials[0]])
    rise = (heights[0].astype(float) - z) / LOCAL_MAP_RISE
    values = np.where(rise > 0.0, np.minimum(rise, 1.0), hazards)
    values[(np.abs(px) > world.half) | (np.abs(py) > world.half)] = 1.0
    doubtful = (heights[1] != heights[2]) | (materials[1] != materials[2])
    doubtful |= (np.abs(np.abs(px) - world.half) < 1e-3) | (np.abs(np.abs(py) - world.half) < 1e-3)
    values[doubtful] = EITHER
    return values
