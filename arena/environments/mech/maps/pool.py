"""The pool of maps that matches of a composition are played on. Numpy only: Torch- and Warp-free.

Every map equals itself after half a turn: no side is better. Grids are [row, column], row along y, column along x.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena.environments.mech.config.constants import (
    SPAWN_COLUMNS,
    SPAWN_DISTANCE_RANGE,
    SPAWN_JITTER,
    SPAWN_PITCH,
    ZONE_RADIUS,
    ZONE_RADIUS_RANGE,
)
from arena.environments.mech.config.scenario import MechConfig, Terrain
from arena.environments.mech.maps.features import Landscape
from arena.environments.mech.maps.generator import Site, count_features, draw_landscape, spread
from arena.environments.mech.maps.pathfinding import Routes, Walker, find_routes
from arena.seeding import derive

MAPS_EDITION = 1
"""Version of the maps. Increment it with every change of a map, because other maps are another game."""
MAPS = 32
"""Maps of a pool."""
POOL_SEED = 0
"""Seed of all maps."""
GOLDEN_TURN = math.pi * (3.0 - math.sqrt(5.0))
"""Angle between the spawns of consecutive maps, so that any number of maps covers all directions evenly."""
CLEAR_MARGIN = 2.0
"""Width of the flat, plain margin around the largest zone and the formations, in metres."""
LARGEST_ZONE = ZONE_RADIUS * ZONE_RADIUS_RANGE[1]

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class MapPool:
    """M maps of G x G cells, from the easiest to the hardest; open ground has one cell.

    Attributes:
        footprints: Footprints (`MechClass.footprint`) of the layers of `ground`.
        solid: Height (M, G, G) of the ground, and of glass, in metres.
        sight: Height (M, G, G) up to which a cell blocks the sight.
        material: Material (M, G, G) of every cell.
        ground: Highest `solid` under a mech in each cell (layers, M, G, G).
        route: First step x, y and length of the path to the centre (M, G, G, 3).
        highest: Maximum of `solid` and `sight` (M,).
        spawn: Centre of home's formation (M, 2).
    """

    footprints: tuple[int, ...]
    solid: Bytes
    sight: Bytes
    material: Bytes
    ground: Bytes
    route: Floats
    highest: Floats
    spawn: Floats


@dataclass(frozen=True)
class _Map:
    land: Landscape
    ground: list[NDArray[np.int64]]
    routes: Routes


@functools.cache
def build_pool(config: MechConfig) -> MapPool:
    """The maps of a composition; the same in every process."""
    footprints = tuple(sorted({mech.footprint for mech in config.team}))
    spawns = np.array([_choose_spawn(config, number) for number in range(MAPS)])
    if config.terrain is Terrain.OPEN:
        return _open_pool(footprints, spawns)
    maps = [_build_map(config, footprints, number, spawn) for number, spawn in enumerate(spawns)]
    return _stack(footprints, spawns, maps)


def _choose_spawn(config: MechConfig, number: int) -> tuple[float, float]:
    """Centre of home's formation; on broken ground in the farther half of its range, to have cover before it."""
    nearest, farthest = SPAWN_DISTANCE_RANGE
    if config.terrain is Terrain.BROKEN:
        nearest = 0.5 * (nearest + farthest)
    share = derive(POOL_SEED, "maps", number, "distance") * 2.0**-63
    distance = config.map_side / 2.0 * (nearest + (farthest - nearest) * share)
    angle = (number + 0.5) * GOLDEN_TURN
    return distance * math.cos(angle), distance * math.sin(angle)


def _build_map(config: MechConfig, footprints: tuple[int, ...], number: int, spawn: NDArray[np.float64]) -> _Map:
    """Draw a map, with ever fewer features until the widest mech can walk from its spawn to the zone."""
    difficulty = number / (MAPS - 1)
    seed = derive(POOL_SEED, "maps", number)
    site = Site(_clear_cells(config, spawn), spawn, footprints[-1])
    formation = _formation_cells(config, spawn, margin=0.0)
    features = count_features(site.clear, difficulty)
    while True:
        land = draw_landscape(seed, site, difficulty, features)
        layers = [spread(land.solid, footprint) for footprint in footprints]
        routes = _find_routes(config, land, layers)
        if features == 0 or bool(routes.on_foot[formation].all()):
            return _Map(land, layers, routes)
        # The same seed with fewer features, so that the maps stay the same in every process.
        features = features * 3 // 4


def _find_routes(config: MechConfig, land: Landscape, layers: list[NDArray[np.int64]]) -> Routes:
    widths = sorted(mech.width for mech in config.team)
    narrowest, widest = (
        Walker(layer, _room(config.map_side, width))
        for layer, width in ((layers[0], widths[0]), (layers[-1], widths[-1]))
    )
    return find_routes(widest, narrowest, land.material, LARGEST_ZONE)


def _room(side: int, width: float) -> Mask:
    """Cells that the middle of a mech can be in without leaving the map."""
    border = int(width / 2.0)
    room = np.zeros((side, side), dtype=np.bool_)
    room[border : side - border, border : side - border] = True
    return room


def _clear_cells(config: MechConfig, spawn: NDArray[np.float64]) -> Mask:
    """Cells that stay flat and plain: the zone and the formations."""
    footprint = max(mech.footprint for mech in config.team)
    middles = np.arange(config.map_side) + 0.5 - config.map_side / 2.0
    distance = np.hypot(middles[None, :], middles[:, None])
    zone = distance <= LARGEST_ZONE + max(CLEAR_MARGIN, math.sqrt(2.0) * footprint)
    start = _formation_cells(config, spawn, margin=CLEAR_MARGIN + footprint)
    return np.asarray(zone | start | start[::-1, ::-1])


def _formation_cells(config: MechConfig, spawn: NDArray[np.float64], margin: float) -> Mask:
    """Cells that home can occupy at the start."""
    rows, columns = math.ceil(len(config.team) / SPAWN_COLUMNS), min(len(config.team), SPAWN_COLUMNS)
    middles = np.arange(config.map_side) + 0.5 - config.map_side / 2.0
    x, y = middles[None, :] - spawn[0], middles[:, None] - spawn[1]
    outward = spawn / np.hypot(*spawn)
    extra = SPAWN_JITTER + margin
    deep = np.abs(x * outward[0] + y * outward[1]) <= 0.5 * (rows - 1) * SPAWN_PITCH + extra
    wide = np.abs(y * outward[0] - x * outward[1]) <= 0.5 * (columns - 1) * SPAWN_PITCH + extra
    return np.asarray(deep & wide)


def _stack(footprints: tuple[int, ...], spawns: NDArray[np.float64], maps: list[_Map]) -> MapPool:
    def grids(each: list[NDArray[np.int64]]) -> Bytes:
        return np.stack(each).astype(np.uint8)

    solid, sight = grids([each.land.solid for each in maps]), grids([each.land.sight for each in maps])
    return MapPool(
        footprints=footprints,
        solid=solid,
        sight=sight,
        material=grids([each.land.material for each in maps]),
        ground=np.stack([grids([each.ground[layer] for each in maps]) for layer in range(len(footprints))]),
        route=np.stack([np.dstack([each.routes.steps, each.routes.lengths]) for each in maps]).astype(np.float32),
        highest=np.maximum(solid, sight).max(axis=(1, 2)).astype(np.float32),
        spawn=spawns.astype(np.float32),
    )


def _open_pool(footprints: tuple[int, ...], spawns: NDArray[np.float64]) -> MapPool:
    """Maps that differ in their spawns only."""
    flat = np.zeros((MAPS, 1, 1), dtype=np.uint8)
    return MapPool(
        footprints=footprints,
        solid=flat,
        sight=flat,
        material=flat,
        ground=np.stack([flat] * len(footprints)),
        route=np.zeros((MAPS, 1, 1, 3), dtype=np.float32),
        highest=np.zeros(MAPS, dtype=np.float32),
        spawn=spawns.astype(np.float32),
    )
