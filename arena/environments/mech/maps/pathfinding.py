"""Shortest paths on foot from every cell of a map to its centre. Numpy only: Torch- and Warp-free.

Grids are [row, column]. Lengths are whole millimetres: sums are exact, so that the routes of a map are point-symmetric,
as the map is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.environments.mech.config.constants import DEBRIS, LAVA, WATER

Grid = NDArray[np.int64]
Lengths = NDArray[np.int32]
Mask = NDArray[np.bool_]

WEIGHTS = {WATER: 2, LAVA: 8, DEBRIS: 2}
"""Length factor of a material; 1 for all others."""
LEDGE_WEIGHT = 1
"""Added to the length factor at the edge of a drop."""
ASTRAY_WEIGHT = 3
"""Length factor where the widest mech cannot walk."""
LOOK_AHEAD = 3
"""Steps from cell to cell that a route's first step looks ahead."""

STRAIGHT = ((0, 1), (1, 0), (0, -1), (-1, 0))
DIAGONAL = ((1, 1), (1, -1), (-1, -1), (-1, 1))
NEIGHBOURS = (*STRAIGHT, *DIAGONAL)
"""Row and column offsets of the neighbouring cells."""
HALF_STRAIGHT, HALF_DIAGONAL = 500, 707
"""Half a step's length in millimetres."""
FAR = 5 * 10**8
"""Larger than every path length."""
NOWHERE = 10**6
"""Height of cells that no mech can enter."""


@dataclass(frozen=True)
class Walker:
    """Walkable cells of a mech: the height (G, G) of the ground under its footprint, and the cells that it fits in."""

    ground: Grid
    room: Mask


@dataclass(frozen=True)
class Routes:
    """Paths to the centre.

    Attributes:
        on_foot: Cells (G, G) from which the widest mech can walk to the centre.
        steps: First step (G, G, 2), a unit vector x, y.
        lengths: Weighted length (G, G) in metres.
    """

    on_foot: Mask
    steps: NDArray[np.float64]
    lengths: NDArray[np.float64]


def find_routes(widest: Walker, narrowest: Walker, material: Grid, free_radius: float) -> Routes:
    """Find the shortest path from every cell of a point-symmetric map.

    Where the widest mech cannot walk, the path is that of the narrowest one, on foot or jumping down, to a cell where
    it can. From pits it leads straight through the walls.

    Args:
        widest: The widest mech.
        narrowest: The narrowest mech.
        material: Material (G, G) of every cell.
        free_radius: Radius in metres of the flat, plain centre, where paths are straight.
    """
    middles = np.arange(len(material)) + 0.5 - len(material) / 2.0
    places = np.stack(np.meshgrid(middles, middles), axis=-1)
    distance = np.hypot(places[..., 0], places[..., 1])
    free = distance <= free_radius
    weight = _weights(narrowest.ground, material)
    # Exact lengths in the free centre, and infinity elsewhere: the search spreads from the centre outwards.
    lengths = np.where(free, np.round(1000.0 * distance), FAR).astype(np.int32)
    costs, on_foot = _measure(lengths, _stages(widest, narrowest, weight))
    steps = _head(places, _first_steps(lengths, costs, free), _is_tricky(weight, costs))
    steps[free] = -places[free] / distance[free][:, None]
    return Routes(on_foot, steps, lengths / 1000.0)


def _weights(ground: Grid, material: Grid) -> Grid:
    """Length factor of every cell."""
    ledge = np.any([ground - _seen(ground, way, NOWHERE) > 1 for way in NEIGHBOURS], axis=0)
    weight: Grid = np.where(ledge, 1 + LEDGE_WEIGHT, 1)
    for kind, metres in WEIGHTS.items():
        weight[material == kind] = metres
    return weight


def _is_tricky(weight: Grid, costs: Lengths) -> Mask:
    """Cells that weigh more than plain ground, or from which one can go to a cell that weighs more than they do."""
    heavier = [(_seen(weight, way, 0) > weight) & (cost < FAR) for way, cost in zip(NEIGHBOURS, costs, strict=True)]
    return np.asarray((weight > 1) | np.any(heavier, axis=0))


def _stages(widest: Walker, narrowest: Walker, weight: Grid) -> Sequence[Lengths]:
    """Costs of the search stages: walking for all mechs, then for the narrowest mech, then flying."""
    firm = widest.room & (widest.ground - narrowest.ground <= 1)
    together = [_walks(ground, firm, deepest=1, weight=weight) for ground in (widest.ground, narrowest.ground)]
    astray = ASTRAY_WEIGHT * weight
    anywhere = np.ones_like(firm)
    return (
        np.maximum(*together),
        _walks(narrowest.ground, narrowest.room, deepest=NOWHERE, weight=astray),
        _walks(np.zeros_like(weight), anywhere, deepest=0, weight=astray),
    )


def _walks(ground: Grid, room: Mask, deepest: int, weight: Grid) -> Lengths:
    """Cost (8, G, G) of moving from every cell to each neighbour: up by at most a metre, without cutting corners.

    Args:
        ground: Height (G, G) of the cells.
        room: Cells that can be entered.
        deepest: Largest step down in metres.
        weight: Length factor of each cell.
    """
    free: dict[tuple[int, int], Mask] = {}
    for way in NEIGHBOURS:
        rise = _seen(ground, way, 0) - ground
        free[way] = (rise <= 1) & (rise >= -deepest) & room & _seen(room, way, fill=False)
    for row, column in DIAGONAL:
        along, up = (0, column), (row, 0)
        # A diagonal needs both ways around the corner, or a mech's box would hit it.
        round_corners = _seen(free[up], along, fill=False) & _seen(free[along], up, fill=False)
        free[row, column] &= free[along] & free[up] & round_corners
    halves = [HALF_STRAIGHT] * len(STRAIGHT) + [HALF_DIAGONAL] * len(DIAGONAL)
    costs = [
        np.where(free[way], half * (weight + _seen(weight, way, 0)), FAR)
        for way, half in zip(NEIGHBOURS, halves, strict=True)
    ]
    return np.stack(costs).astype(np.int32)


def _seen(grid: NDArray[Any], way: tuple[int, int], fill: int) -> NDArray[Any]:
    """Values of the neighbouring cells in one direction; `fill` beyond the edge."""
    return _next(np.pad(grid, 1, constant_values=fill), way)


def _measure(lengths: Lengths, stages: Sequence[Lengths]) -> tuple[Lengths, Mask]:
    """Compute path lengths stage by stage, each for cells without a path so far; also return the costs that apply."""
    costs = stages[0]
    _relax(lengths, costs)
    found = lengths < FAR
    for stage in stages[1:]:
        # Cells with a path keep the costs of their stage, so that a detour for small mechs never replaces it.
        costs = np.where(lengths < FAR, costs, stage)
        _relax(lengths, costs)
    return costs, found


def _relax(lengths: Lengths, costs: Lengths) -> None:
    """Shorten lengths (G, G) in place until no neighbour offers a shorter path (Bellman-Ford)."""
    padded = np.pad(lengths, 1, constant_values=FAR)
    inner = padded[1:-1, 1:-1]
    before = np.zeros_like(lengths)
    while not np.array_equal(inner, before):
        before = inner.copy()
        for way, cost in zip(NEIGHBOURS, costs, strict=True):
            np.minimum(inner, _next(padded, way) + cost, out=inner)
    lengths[:] = inner


def _next(padded: NDArray[Any], way: tuple[int, int]) -> NDArray[Any]:
    """Values of the neighbouring cells in one direction, of a grid with a border of one cell."""
    row, column = way
    size = len(padded) - 2
    return padded[1 + row : 1 + row + size, 1 + column : 1 + column + size]


def _first_steps(lengths: Lengths, costs: Lengths, free: Mask) -> NDArray[np.int64]:
    """Flat index (G * G,) of the next cell on each path; the cell itself where the path is straight."""
    size = len(lengths)
    padded = np.pad(lengths, 1, constant_values=FAR)
    offers = np.stack([_next(padded, way) + cost for way, cost in zip(NEIGHBOURS, costs, strict=True)])
    offsets = np.array([row * size + column for row, column in NEIGHBOURS])
    own = np.arange(size * size)
    following = np.where(free.ravel(), own, own + offsets[offers.argmin(axis=0)].ravel())
    # Ties are broken by order, which half a turn reverses. So one half is computed and the other one mirrored.
    half = len(own) // 2
    return np.concatenate([following[:half], len(own) - 1 - following[:half][::-1]])


def _head(places: NDArray[np.float64], following: NDArray[np.int64], tricky: Mask) -> NDArray[np.float64]:
    """Unit vectors (G, G, 2) from every cell to a cell ahead on its path; in difficult terrain to the next cell.

    Elsewhere the target is the farthest of the next LOOK_AHEAD cells on the side where the path begins: a mech that
    walks straight at it and is blocked along one axis still advances along the other.
    """
    flat = places.reshape(-1, 2)
    first = flat[following] - flat
    aim = following
    for _ in range(LOOK_AHEAD - 1):
        beyond = following[aim]
        same_side = ((flat[beyond] - flat) * first >= first**2).all(axis=1)
        aim = np.where(same_side & ~tricky.ravel(), beyond, aim)
    ways = flat[aim] - flat
    # Where the path is straight the way is 0, and `find_routes` writes its step.
    lengths = np.hypot(ways[:, 0], ways[:, 1])
    return (ways / np.maximum(lengths, 1.0)[:, None]).reshape(places.shape)
