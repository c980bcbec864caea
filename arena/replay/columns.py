"""Integer columns: numpy arrays in memory, lists of numbers in the file.

A column that changes slowly is stored as its first entry and the differences after it. Most are small or 0, so gzip
compresses them to a few bits.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import FailFast, GetCoreSchemaHandler, GetPydanticSchema
from pydantic_core import CoreSchema, core_schema

Integers = NDArray[np.int64]

LARGEST = 2**31 - 1
"""Largest absolute value in a column."""


def _plain(values: list[int]) -> Integers:
    return _bounded(values)


def _summed(differences: list[int]) -> Integers:
    return _bounded(np.cumsum(_bounded(differences)))


def _summed_rows(rows: list[list[int]]) -> Integers:
    if len({len(row) for row in rows}) > 1:
        raise ValueError("all mechs need a number for every frame")
    return np.stack([_summed(row) for row in rows], axis=1) if rows else np.zeros((0, 0), dtype=np.int64)


def _bounded(values: Sequence[int] | Integers) -> Integers:
    try:
        column = np.asarray(values, dtype=np.int64)
    except OverflowError as error:
        raise ValueError(f"a number is beyond ±{LARGEST}") from error
    if column.size and not -LARGEST <= column.min() <= column.max() <= LARGEST:
        raise ValueError(f"a number is beyond ±{LARGEST}")
    return column


def _write_plain(column: Integers) -> list[int]:
    return column.tolist()  # type: ignore[no-any-return]


def _write_differences(column: Integers) -> list[int]:
    return np.diff(column, prepend=0).tolist()  # type: ignore[no-any-return]


def _write_rows(columns: Integers) -> list[list[int]]:
    return [_write_differences(column) for column in columns.T]


def _stored(written: Any, read: Callable[[Any], Integers], write: Callable[[Integers], Any]) -> GetPydanticSchema:  # noqa: ANN401  types
    def schema(_: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401  the annotated type
        serialization = core_schema.plain_serializer_function_ser_schema(write)
        return core_schema.no_info_after_validator_function(read, handler(written), serialization=serialization)

    return GetPydanticSchema(schema)


_List = Annotated[list[int], FailFast()]

Plain = Annotated[Integers, _stored(_List, _plain, _write_plain)]
"""(M,) stored unchanged."""

Differences = Annotated[Integers, _stored(_List, _summed, _write_differences)]
"""(M,) or (F,), stored as the first entry and the differences after it."""

FrameColumns = Annotated[Integers, _stored(list[_List], _summed_rows, _write_rows)]
"""(F, N) in memory; stored as one list per mech, in the form of `Differences`."""
