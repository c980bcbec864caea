"""Lines of sight in fixed point: coordinates in steps of 2^-24 m from the map's edge, so that a shift gives the cell.

Positions are odd and steps even, so no position is on the border of two cells. After half a turn of the map, a position
is in the cell that its own cell becomes.
"""

import warp as wp

from arena.environments.mech.config.constants import SIGHT_STEP
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.geometry import plane
from arena.environments.mech.kernels.state import COVER_CELLS, Terrain

wp.set_module_options(MODULE_OPTIONS)

BITS = 24
PAIRS = 2.0 ** (BITS - 1)
"""Pairs of steps in a metre."""
GROUP = 2 * COVER_CELLS + 1
"""Consecutive points of a line that `Terrain.cover` of the middle one bounds; they are at most a metre apart."""
REACH, SPAN = wp.uint32(GROUP - 1), wp.uint32(2 * GROUP)
"""Distances from the first point of a group to its middle, and to the next group, in half steps."""


@device_function
def fine_step(length: float) -> wp.uint32:
    """An even count for a length on one axis."""
    return wp.uint32(2 * int(length * PAIRS))


@device_function
def fine_place(terrain: Terrain, coordinate: float) -> wp.uint32:
    """An odd count for a coordinate; less than 2^32, as no map has more than 200 cells a side."""
    return (
        wp.uint32((terrain.cells // 2) << BITS) + fine_step(coordinate) + wp.uint32(wp.where(coordinate >= 0.0, 1, -1))
    )


@device_function
def fine_cell(place: wp.uint32) -> int:
    """Row or column of a position; beyond the last one for positions outside the map."""
    return int(place >> wp.uint32(BITS))


@device_function
def below(heights: wp.array[wp.uint8], cells: int, x: wp.uint32, y: wp.uint32, z: int) -> bool:
    """Whether a point is below the height map at its cell."""
    return z < int(heights[fine_cell(y) * cells + fine_cell(x)]) << BITS


@device_function
def is_blocked(terrain: Terrain, map_index: int, start: wp.vec3, end: wp.vec3) -> bool:
    """Whether `sight` of a map rises above the line between two points; symmetric in both points.

    GROUP points at a time are skipped where the line is above the cover of the middle one.
    """
    heights = wp.array(ptr=terrain.sight[map_index].ptr, shape=(terrain.cells * terrain.cells,), dtype=wp.uint8)
    cover = wp.array(ptr=terrain.cover[map_index].ptr, shape=(terrain.cells * terrain.cells,), dtype=wp.uint8)
    line = end - start
    points = wp.max(int(wp.ceil(wp.length(plane(line)) / SIGHT_STEP)), 1)
    # Points lie at odd multiples of half a step around the middle, so both ends give the same points.
    half_step = line / float(2 * points)
    middle = 0.5 * (start + end)
    half_x = fine_step(half_step[0])
    half_y = fine_step(half_step[1])
    half_z = int(fine_step(half_step[2]))
    x = wp.uint32(fine_place(terrain, middle[0]) - wp.uint32(points - 1) * half_x)
    y = wp.uint32(fine_place(terrain, middle[1]) - wp.uint32(points - 1) * half_y)
    z = wp.int32(int(fine_step(middle[2])) - (points - 1) * half_z)
    # The lowest point of a group when the line falls. If it is above the cover, so are all others.
    sink = wp.min(2 * (GROUP - 1) * half_z, 0)
    left = wp.int32(points)
    while left > 0:
        group = wp.int32(wp.min(left, GROUP))
        left -= group
        if group == GROUP and not below(cover, terrain.cells, x + REACH * half_x, y + REACH * half_y, z + sink):
            x += SPAN * half_x
            y += SPAN * half_y
            z += 2 * GROUP * half_z
            group = 0
        while group > 0:
            if below(heights, terrain.cells, x, y, z):
                return True
            x += half_x + half_x
            y += half_y + half_y
            z += 2 * half_z
            group -= 1
    return False
