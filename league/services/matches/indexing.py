"""Indices of ids: by lookup tables where ids are close together, several times as fast as by sorting."""

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

_BYTES_PER_VALUE = 64  # of a table, up to which it is worth its making


def distinct(*parts: IntArray) -> IntArray:
    """Return the values that are in any of some arrays, in ascending order."""
    values = np.concatenate(parts)
    first, cells = _span(values)
    if cells > _BYTES_PER_VALUE * values.size:
        return np.unique(values)
    there = np.zeros(cells, dtype=np.bool_)
    there[values - first] = True
    return np.flatnonzero(there) + first


def indices(ordered: IntArray, values: IntArray) -> IntArray:
    """Return the place of each of M values in an array that holds them all, once each, in ascending order; (M,)."""
    first, cells = _span(ordered[[0, -1]]) if ordered.size else (0, 0)
    if cells * np.dtype(np.int64).itemsize > _BYTES_PER_VALUE * values.size:
        return np.searchsorted(ordered, values)
    table = np.empty(cells, dtype=np.int64)
    table[ordered - first] = np.arange(ordered.size)
    return np.asarray(table[values - first])


def _span(values: IntArray) -> tuple[int, int]:
    """Return the least value, and how many there may be from there to the largest."""
    if not values.size:
        return 0, 0
    return int(values.min()), int(np.ptp(values)) + 1
