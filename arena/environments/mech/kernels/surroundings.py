"""Block local_map: the ground around a mech, in its own frame."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.fine import fine_cell, fine_place, fine_step
from arena.environments.mech.kernels.state import Field, Hulls, State, Terrain
from arena.environments.mech.rules import (
    DEBRIS,
    HAZARD_HEAT,
    LAVA,
    LOCAL_MAP_CELLS,
    LOCAL_MAP_PITCH,
    LOCAL_MAP_RISE,
    WATER,
)

wp.set_module_options(MODULE_OPTIONS)

MIDDLE = wp.uint32(LOCAL_MAP_CELLS // 2)
OUTSIDE = 1.0
HAZARDS = {WATER: -0.25, DEBRIS: -0.5, LAVA: -1.0}
MATERIALS = len(HAZARD_HEAT)
SURFACE = wp.types.vector(MATERIALS, wp.float32)(*(HAZARDS.get(material, 0.0) for material in range(MATERIALS)))
"""What low ground reads as, by its material."""


@wp.func(inline=True)
@no_type_check
def write_line(
    t: Terrain,
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
        inside = wp.max(fine_cell(x), fine_cell(y)) < t.cells
        cell = wp.where(inside, fine_cell(y) * t.cells + fine_cell(x), 0)
        rise = wp.min((float(heights[cell]) - feet) / LOCAL_MAP_RISE, 1.0)
        found = wp.where(rise > 0.0, rise, SURFACE[int(materials[cell])])
        row[column + k] = wp.where(inside, found, OUTSIDE)
        x += step[0]
        y += step[1]
        k += 1


@wp.func(inline=True)
@no_type_check
def write_local_map(s: State, h: Hulls, t: Terrain, f: Field, row: wp.array[wp.float32], e: int, i: int) -> None:
    """The block, where the composition has it."""
    if f.column_local_map < 0:
        return
    cells = t.cells * t.cells
    heights = wp.array(ptr=t.ground[h.ground[i], s.map[e]].ptr, shape=(cells,), dtype=wp.uint8)
    materials = wp.array(ptr=t.material[s.map[e]].ptr, shape=(cells,), dtype=wp.uint8)
    position = s.position[e, i]
    ahead = LOCAL_MAP_PITCH * s.heading[e, i]
    step = wp.vec2ui(fine_step(ahead[0]), fine_step(ahead[1]))
    left = wp.vec2ui(fine_step(-ahead[1]), step[0])
    start = wp.vec2ui(fine_place(t, position[0]), fine_place(t, position[1])) - MIDDLE * (step + left)
    line = wp.int32(0)
    while line < LOCAL_MAP_CELLS:
        column = f.column_local_map + LOCAL_MAP_CELLS * line
        write_line(t, heights, materials, row, column, position[2], start, left)
        start += step
        line += 1
