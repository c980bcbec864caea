"""Block local_map: the ground around a mech, in its own frame."""

import warp as wp

from arena.environments.mech.config.constants import (
    DEBRIS,
    HAZARD_HEAT,
    LAVA,
    LOCAL_MAP_CELLS,
    LOCAL_MAP_PITCH,
    LOCAL_MAP_RISE,
    WATER,
)
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.raymarch import fine_cell, fine_place, fine_step
from arena.environments.mech.kernels.state import Field, Hulls, State, Terrain

wp.set_module_options(MODULE_OPTIONS)

MIDDLE = wp.uint32(LOCAL_MAP_CELLS // 2)
OUTSIDE = 1.0
HAZARDS = {WATER: -0.25, DEBRIS: -0.5, LAVA: -1.0}
MATERIALS = len(HAZARD_HEAT)
SURFACE = wp.types.vector(MATERIALS, wp.float32)(*(HAZARDS.get(material, 0.0) for material in range(MATERIALS)))
"""Value of low ground in the local map, by material."""


@device_function
def write_line(
    terrain: Terrain,
    heights: wp.array[wp.uint8],
    materials: wp.array[wp.uint8],
    row: wp.array[wp.float32],
    column: int,
    feet: float,
    start: wp.vec2ui,
    step: wp.vec2ui,
) -> None:
    """One row of the local map."""
    x = wp.uint32(start[0])
    y = wp.uint32(start[1])
    k = wp.int32(0)
    while k < LOCAL_MAP_CELLS:
        inside = wp.max(fine_cell(x), fine_cell(y)) < terrain.cells
        # Cell 0 outside the map: both branches of `where` are evaluated, and reads must stay in bounds.
        cell = wp.where(inside, fine_cell(y) * terrain.cells + fine_cell(x), 0)
        rise = wp.min((float(heights[cell]) - feet) / LOCAL_MAP_RISE, 1.0)
        found = wp.where(rise > 0.0, rise, SURFACE[int(materials[cell])])
        row[column + k] = wp.where(inside, found, OUTSIDE)
        x += step[0]
        y += step[1]
        k += 1


@device_function
def write_local_map(
    state: State, hulls: Hulls, terrain: Terrain, field: Field, row: wp.array[wp.float32], env: int, mech: int
) -> None:
    """The block, where the composition has it."""
    if field.column_local_map < 0:
        return
    cells = terrain.cells * terrain.cells
    heights = wp.array(ptr=terrain.ground[hulls.ground[mech], state.map[env]].ptr, shape=(cells,), dtype=wp.uint8)
    materials = wp.array(ptr=terrain.material[state.map[env]].ptr, shape=(cells,), dtype=wp.uint8)
    position = state.position[env, mech]
    ahead = LOCAL_MAP_PITCH * state.heading[env, mech]
    step = wp.vec2ui(fine_step(ahead[0]), fine_step(ahead[1]))
    left = wp.vec2ui(fine_step(-ahead[1]), step[0])
    start = wp.vec2ui(fine_place(terrain, position[0]), fine_place(terrain, position[1])) - MIDDLE * (step + left)
    line = wp.int32(0)
    while line < LOCAL_MAP_CELLS:
        column = field.column_local_map + LOCAL_MAP_CELLS * line
        write_line(terrain, heights, materials, row, column, position[2], start, left)
        start += step
        line += 1
