"""What lies where: heights, materials and ways on foot, by the cells of a match's map."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import plane
from arena.environments.mech.kernels.state import Field, Hulls, State, Terrain
from arena.environments.mech.rules import FOOT_CLEARANCE, PLAIN, SIGHT_STEP, ZONE_HEIGHT

wp.set_module_options(MODULE_OPTIONS)


@wp.func(inline=True)
@no_type_check
def cell(t: Terrain, x: float) -> int:
    """Column of an x, or row of a y; a half turn of the map makes cell k cell G - 1 - k."""
    steps = int(x) - wp.where(x < 0.0, 1, 0)
    return wp.clamp(steps + t.cells // 2, 0, t.cells - 1)


@wp.func(inline=True)
@no_type_check
def solid_height(s: State, t: Terrain, e: int, p: wp.vec2) -> float:
    """Height of the ground, and of glass."""
    if t.flat:
        return 0.0
    return float(t.solid[s.map[e], cell(t, p[1]), cell(t, p[0])])


@wp.func(inline=True)
@no_type_check
def ground_height(s: State, h: Hulls, t: Terrain, e: int, i: int, p: wp.vec2) -> float:
    """Height at which mech i stands there: of the highest cell under its footprint."""
    if t.flat:
        return 0.0
    return float(t.ground[h.ground[i], s.map[e], cell(t, p[1]), cell(t, p[0])])


@wp.func(inline=True)
@no_type_check
def material(s: State, t: Terrain, e: int, p: wp.vec2) -> int:
    """What the cell is made of."""
    if t.flat:
        return PLAIN
    return int(t.material[s.map[e], cell(t, p[1]), cell(t, p[0])])


@wp.func(inline=True)
@no_type_check
def middle(t: Terrain, k: int) -> float:
    """Coordinate of the middle of a row or column."""
    return float(k - t.cells // 2) + 0.5


@wp.func(inline=True)
@no_type_check
def way(s: State, t: Terrain, e: int, p: wp.vec2) -> float:
    """Length of the way to the map's centre on foot."""
    if t.flat:
        return wp.length(p)
    row = cell(t, p[1])
    column = cell(t, p[0])
    route = t.route[s.map[e], row, column]
    beyond = wp.vec2(p[0] - middle(t, column), p[1] - middle(t, row))
    return wp.max(route[2] - wp.dot(plane(route), beyond), 0.0)


@wp.func(inline=True)
@no_type_check
def route_step(s: State, t: Terrain, e: int, p: wp.vec2) -> wp.vec2:
    """Unit vector along the way to the map's centre on foot."""
    if t.flat:
        return wp.normalize(-p)
    return plane(t.route[s.map[e], cell(t, p[1]), cell(t, p[0])])


@wp.func(inline=True)
@no_type_check
def on_map(f: Field, p: wp.vec2) -> bool:
    """Whether a point lies on the map."""
    return wp.max(wp.abs(p[0]), wp.abs(p[1])) <= f.half_side


@wp.func(inline=True)
@no_type_check
def height_above_ground(s: State, h: Hulls, t: Terrain, e: int, i: int) -> float:
    """How far a mech's feet are above where it would stand."""
    position = s.position[e, i]
    return position[2] - ground_height(s, h, t, e, i, plane(position))


@wp.func(inline=True)
@no_type_check
def grounded(s: State, h: Hulls, t: Terrain, e: int, i: int) -> bool:
    """Whether a mech stands in what is on the ground."""
    return height_above_ground(s, h, t, e, i) <= FOOT_CLEARANCE


@wp.func(inline=True)
@no_type_check
def in_zone(s: State, h: Hulls, t: Terrain, e: int, i: int) -> bool:
    """Whether a mech holds the zone."""
    if s.hp[e, i] <= 0.0 or wp.length(plane(s.position[e, i])) > s.zone_radius[e]:
        return False
    return height_above_ground(s, h, t, e, i) <= ZONE_HEIGHT


@wp.func(inline=True)
@no_type_check
def ground_between(s: State, t: Terrain, e: int, start: wp.vec3, end: wp.vec3) -> bool:
    """Whether `solid` rises above the line between two points; the same from either end."""
    if t.flat or wp.min(start[2], end[2]) >= t.highest[s.map[e]]:
        return False
    heights = t.solid[s.map[e]]
    line = end - start
    points = wp.max(int(wp.ceil(wp.length(plane(line)) / SIGHT_STEP)), 1)
    half_step = line / float(2 * points)
    centre = 0.5 * (start + end)
    k = wp.int32(1 - points)
    while k < points:
        point = centre + float(k) * half_step
        if point[2] < float(heights[cell(t, point[1]), cell(t, point[0])]):
            return True
        k += 2
    return False
