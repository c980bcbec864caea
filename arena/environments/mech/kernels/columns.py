"""Columns of blocks and features in a row of an observation, and functions that clip numbers to their range."""

import itertools
from collections.abc import Sequence

import warp as wp

from arena.environments.mech import observation_spec as layout
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.state import Hulls, State

wp.set_module_options(MODULE_OPTIONS)

SIZES = (
    len(layout.CONDITION_FEATURES),
    1,
    len(layout.HULL_FEATURES),
    len(layout.MOTION_FEATURES),
    len(layout.ZONE_FEATURES),
    len(layout.EDGE_FEATURES),
    len(layout.SCORE_FEATURES),
    len(layout.SENSOR_FEATURES),
    len(layout.PANEL_FEATURES),
)
CONDITION, HEAT, HULL, MOTION, ZONE, EDGE, SCORE, SENSORS, PANEL, _ = itertools.accumulate(SIZES, initial=0)
"""First columns of the blocks that every composition has at the same place; `Field` knows those of the others."""

LINE = 16
Line = wp.types.vector(length=LINE, dtype=wp.float32)
"""As many columns as a cache line holds."""


def columns(start: int, features: Sequence[str], names: str) -> tuple[int, ...]:
    """Columns of the named features, spaces between them, of a block or an entry of one that begins at `start`."""
    return tuple(start + features.index(name) for name in names.split())


@device_function
def address(row: wp.array[wp.float32], column: int) -> wp.uint64:
    """Memory address of a column in a row."""
    return row.ptr + wp.uint64(4 * column)


@device_function
def clear(row: wp.array[wp.float32]) -> None:
    """Write 0 everywhere, whole cache lines at a time: it is faster to write into a row that is in the cache."""
    # Rows are written sparsely: 0 everywhere first, so that each block writes its own entries only.
    lines = row.shape[0] // LINE
    cleared = wp.array(ptr=row.ptr, shape=(lines,), dtype=Line)
    k = wp.int32(0)
    while k < lines:
        cleared[k] = Line()
        k += 1
    k = lines * LINE
    while k < row.shape[0]:
        row[k] = 0.0
        k += 1


@device_function
def flag(condition: bool) -> float:
    """1 for true, 0 for false."""
    return wp.where(condition, 1.0, 0.0)


@device_function
def share(part: float, whole: float) -> float:
    """Part divided by whole, clipped to [0, 1]."""
    return wp.clamp(part / whole, 0.0, 1.0)


@device_function
def signed(value: float) -> float:
    """A number cut to [-1, 1]."""
    return wp.clamp(value, -1.0, 1.0)


@device_function
def heat_share(state: State, hulls: Hulls, env: int, mech: int) -> float:
    """Heat over capacity, at most 2."""
    return wp.clamp(state.heat[env, mech] / hulls.heat_capacity[mech], 0.0, 2.0)
