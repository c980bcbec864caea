"""Array types, and input checks that name the array, the first wrong entry and the rule that it breaks."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def refuse(name: str, values: NDArray[np.generic], wrong: BoolArray, rule: str) -> None:
    """Raise ValueError for the first entry that breaks a rule.

    Args:
        name: Name of the array in the message.
        values: (K,) entries.
        wrong: (K,) which entries break the rule.
        rule: The rule.

    Raises:
        ValueError: An entry is wrong.
    """
    if wrong.any():
        index = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"{name}[{index}] is {values[index]}: {rule}")


def finite_column(name: str, values: ArrayLike, length: int | None = None) -> FloatArray:
    """Return `values` as a finite float64 vector of the given length (any length for None).

    Raises:
        ValueError: The shape is another, or a value is not finite.
    """
    column = np.asarray(values, dtype=np.float64)
    _require_vector(name, column, length)
    refuse(name, column, ~np.isfinite(column), "every value must be finite; leave the entry out instead")
    return column


def share_column(name: str, values: ArrayLike, what: str) -> FloatArray:
    """Return `values` as a float64 vector of scores, win rates or other shares in [0, 1].

    Raises:
        ValueError: The shape is another, or a value, which the message calls `what`, is outside [0, 1].
    """
    column = np.asarray(values, dtype=np.float64)
    _require_vector(name, column, None)
    refuse(name, column, ~((column >= 0.0) & (column <= 1.0)), f"{what} lies in [0, 1]")
    return column


def integer_column(name: str, values: ArrayLike, length: int | None, least: int, rule: str) -> IntArray:
    """Return `values` as an int64 vector of values no lower than `least`.

    Raises:
        ValueError: The type or the shape is another, or a value is lower, which breaks `rule`.
    """
    column = np.asarray(values)
    if column.dtype.kind not in "iu" and column.size:
        raise ValueError(f"{name} has type {column.dtype}: pass whole numbers of an integer type")
    whole = column.astype(np.int64, copy=False)
    _require_vector(name, whole, length)
    refuse(name, whole, whole < least, rule)
    return whole


def player_indices(name: str, values: ArrayLike, players: int) -> IntArray:
    """Return `values` as int64 indices of players, each in [0, players).

    Raises:
        ValueError: An index names no player.
    """
    indices = integer_column(name, values, None, 0, "a player index counts from 0")
    require_players(name, indices, players)
    return indices


def require_players(name: str, indices: IntArray, players: int) -> None:
    """Raise ValueError for the first index that names no player."""
    refuse(name, indices, indices >= players, f"there are {players} players, so an index is below {players}")


def sum_by_index(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Return the sums of the values of each index, (size,)."""
    # bincount of empty arrays returns integers even with float weights
    return np.bincount(index, weights=values, minlength=size).astype(np.float64, copy=False)


def _require_vector(name: str, column: NDArray[np.generic], length: int | None) -> None:
    if column.ndim != 1 or (length is not None and column.size != length):
        wanted = "(count,)" if length is None else f"({length},)"
        raise ValueError(f"{name} has shape {column.shape}: pass one value per entry, shape {wanted}")
