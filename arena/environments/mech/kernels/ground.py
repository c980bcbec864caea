"""Terrain lookups: heights, materials and routes, by the cells of a match's map."""

import warp as wp

from arena.environments.mech.config.constants import FOOT_CLEARANCE, PLAIN, SIGHT_STEP, ZONE_HEIGHT
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.geometry import plane
from arena.environments.mech.kernels.state import Field, Hulls, State, Terrain

wp.set_module_options(MODULE_OPTIONS)


@device_function
def cell(terrain: Terrain, coordinate: float) -> int:
    """Column of an x, or row of a y; half a turn of the map maps cell k to cell G - 1 - k."""
    steps = int(coordinate) - wp.where(coordinate < 0.0, 1, 0)
    return wp.clamp(steps + terrain.cells // 2, 0, terrain.cells - 1)


@device_function
def solid_height(state: State, terrain: Terrain, env: int, point: wp.vec2) -> float:
    """Height of the ground, and of glass."""
    if terrain.flat:
        return 0.0
    return float(terrain.solid[state.map[env], cell(terrain, point[1]), cell(terrain, point[0])])


@device_function
def ground_height(state: State, hulls: Hulls, terrain: Terrain, env: int, mech: int, point: wp.vec2) -> float:
    """Height of the ground for a mech: the maximum over the cells of its footprint."""
    if terrain.flat:
        return 0.0
    return float(terrain.ground[hulls.ground[mech], state.map[env], cell(terrain, point[1]), cell(terrain, point[0])])


@device_function
def material(state: State, terrain: Terrain, env: int, point: wp.vec2) -> int:
    """Material of the cell."""
    if terrain.flat:
        return PLAIN
    return int(terrain.material[state.map[env], cell(terrain, point[1]), cell(terrain, point[0])])


@device_function
def middle(terrain: Terrain, index: int) -> float:
    """Coordinate of the middle of a row or column."""
    return float(index - terrain.cells // 2) + 0.5


@device_function
def path_length(state: State, terrain: Terrain, env: int, point: wp.vec2) -> float:
    """Length of the path to the map's centre on foot."""
    if terrain.flat:
        return wp.length(point)
    row = cell(terrain, point[1])
    column = cell(terrain, point[0])
    route = terrain.route[state.map[env], row, column]
    beyond = wp.vec2(point[0] - middle(terrain, column), point[1] - middle(terrain, row))
    return wp.max(route[2] - wp.dot(plane(route), beyond), 0.0)


@device_function
def route_step(state: State, terrain: Terrain, env: int, point: wp.vec2) -> wp.vec2:
    """Unit vector of the first step of the path to the map's centre."""
    if terrain.flat:
        return wp.normalize(-point)
    return plane(terrain.route[state.map[env], cell(terrain, point[1]), cell(terrain, point[0])])


@device_function
def on_map(field: Field, point: wp.vec2) -> bool:
    """Whether a point is on the map."""
    return wp.max(wp.abs(point[0]), wp.abs(point[1])) <= field.half_side


@device_function
def height_above_ground(state: State, hulls: Hulls, terrain: Terrain, env: int, mech: int) -> float:
    """Height of a mech's feet above the ground of its footprint."""
    position = state.position[env, mech]
    return position[2] - ground_height(state, hulls, terrain, env, mech, plane(position))


@device_function
def grounded(state: State, hulls: Hulls, terrain: Terrain, env: int, mech: int) -> bool:
    """Whether the material of the ground affects a mech."""
    return height_above_ground(state, hulls, terrain, env, mech) <= FOOT_CLEARANCE


@device_function
def in_zone(state: State, hulls: Hulls, terrain: Terrain, env: int, mech: int) -> bool:
    """Whether a mech holds the zone."""
    if state.hp[env, mech] <= 0.0 or wp.length(plane(state.position[env, mech])) > state.zone_radius[env]:
        return False
    return height_above_ground(state, hulls, terrain, env, mech) <= ZONE_HEIGHT


@device_function
def ground_between(state: State, terrain: Terrain, env: int, start: wp.vec3, end: wp.vec3) -> bool:
    """Whether `solid` rises above the line between two points; the same from either end."""
    if terrain.flat or wp.min(start[2], end[2]) >= terrain.highest[state.map[env]]:
        return False
    heights = terrain.solid[state.map[env]]
    line = end - start
    points = wp.max(int(wp.ceil(wp.length(plane(line)) / SIGHT_STEP)), 1)
    half_step = line / float(2 * points)
    centre = 0.5 * (start + end)
    # Points lie symmetrically around the middle, so that both ends see the same and sight is mutual.
    k = wp.int32(1 - points)
    while k < points:
        point = centre + float(k) * half_step
        if point[2] < float(heights[cell(terrain, point[1]), cell(terrain, point[0])]):
            return True
        k += 2
    return False
