"""What stays the same in all matches of a composition: its mechs and its maps."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from mech_oracle.edges import WIDTH
from numpy.typing import NDArray

from arena.environments.mech.config.chassis import CLASSES, MechClass
from arena.environments.mech.config.scenario import MechConfig, ObservationMode, Terrain
from arena.environments.mech.config.weapons import TRIGGERS, WEAPONS

Numbers = NDArray[np.float64]
Plane = tuple[float, float]
Space = tuple[float, float, float]


@dataclass(frozen=True)
class Hull:
    """Class, build and place of one of the N mechs."""

    index: int
    side: int
    rank: int
    pack: int
    stream: int
    type: MechClass
    triggers: dict[int, int] = field(hash=False)
    """Weapon that it carries (index of WEAPONS) -> trigger that fires it."""
    build: int = 0

    @property
    def kind(self) -> int:
        """Its class, counted from the lightest."""
        return list(CLASSES).index(self.type.name)


def describe_hulls(config: MechConfig, streams: list[int] | None) -> list[Hull]:
    size, hulls = len(config.team), []
    for index in range(2 * size):
        side, rank = divmod(index, size)
        pack = config.pack_of[rank] + side * len(config.packs)
        plain = Hull(index, side, rank, pack, streams[index] if streams else index, config.team[rank], {})
        hulls.append(with_build(plain, config, 0))
    return hulls


def with_build(hull: Hull, config: MechConfig, build: int) -> Hull:
    loadout = config.loadout(hull.type.name, build)
    triggers = {w: TRIGGERS.index(loadout[each.name]) for w, each in enumerate(WEAPONS) if each.name in loadout}
    return replace(hull, type=config.with_build(config.team[hull.rank], build), triggers=triggers, build=build)


class World:
    """Mechs and maps of a composition; `streams` are the mechs' random streams, their indices unless given."""

    def __init__(self, config: MechConfig, pool: Any, streams: list[int] | None = None) -> None:
        self.config, self.pool = config, pool
        self.flat = config.terrain is Terrain.OPEN
        self.full_sight = config.observation_mode is ObservationMode.FULL
        self.side, self.half = float(config.map_side), config.map_side / 2.0
        self.hulls = describe_hulls(config, streams)
        self.weapons = config.weapons
        self.grounds: dict[int, NDArray[Any]] = {}
        if not self.flat:
            self.grounds = dict(zip(pool.footprints, pool.ground, strict=True))

    def cell_index(self, coordinate: float) -> int:
        """Column of an x, or row of a y."""
        half = self.config.map_side // 2
        index = half + math.floor(coordinate) if coordinate >= 0.0 else half - 1 - math.floor(-coordinate)
        return min(max(index, 0), self.config.map_side - 1)

    def cell_centre(self, coordinate: float) -> float:
        """Middle of that column or row."""
        return self.cell_index(coordinate) + 0.5 - self.half

    def cells(self, coordinates: Numbers) -> NDArray[np.integer]:
        """`cell_index` of every coordinate."""
        half = self.config.map_side // 2
        up, down = half + np.floor(coordinates), half - 1 - np.floor(-coordinates)
        return np.clip(np.where(coordinates >= 0.0, up, down), 0, self.config.map_side - 1).astype(int)

    def heights(self, grid: NDArray[Any], x: Numbers, y: Numbers) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """What the grid holds at points, and the least and the most of that and what it holds just beside them."""
        here = grid[self.cells(y), self.cells(x)]
        if not (_near_border(x) | _near_border(y)).any():
            return here, here, here
        rows, columns = ([self.cells(c + shift) for shift in (-WIDTH, WIDTH)] for c in (y, x))
        around = np.stack([grid[row, column] for row in rows for column in columns])
        return here, around.min(axis=0), around.max(axis=0)

    def height(self, grid: NDArray[Any], x: float, y: float) -> tuple[int, bool]:
        """What the grid holds at a point, and whether it holds something else just beside it."""
        value = grid[self.cell_index(y), self.cell_index(x)]
        if WIDTH < x % 1.0 < 1.0 - WIDTH and WIDTH < y % 1.0 < 1.0 - WIDTH:
            return int(value), False
        rows = {self.cell_index(y - WIDTH), self.cell_index(y + WIDTH)}
        columns = {self.cell_index(x - WIDTH), self.cell_index(x + WIDTH)}
        return int(value), any(grid[row, column] != value for row in rows for column in columns)


def _near_border(coordinates: Numbers) -> NDArray[np.bool_]:
    return np.abs(coordinates - np.rint(coordinates)) < WIDTH
