"""Integer columns: numpy arrays in memory, lists of numbers in the file.

A column that changes slowly is stored as its first entry and the differences after it. Most are small or 0, so gzip
compresses them to a few bits.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import FailFast, Field, GetCoreSchemaHandler, GetPydanticSchema
from pydantic_core import CoreSchema, core_schema

from arena.arrays import IntArray

LARGEST = 2**31 - 1
"""Largest absolute value in a column."""


def _plain(values: list[int]) -> IntArray:
    return _bounded(values)


def _summed(differences: list[int]) -> IntArray:
    return _bounded(np.cumsum(_bounded(differences)))


def _summed_rows(rows: list[list[int]]) -> IntArray:
    if len({len(row) for row in rows}) > 1:
        raise ValueError("all mechs need a number for every frame")
    return np.stack([_summed(row) for row in rows], axis=1) if rows else np.zeros((0, 0), dtype=np.int64)


def _bounded(values: Sequence[int] | IntArray) -> IntArray:
    try:
        column = np.asarray(values, dtype=np.int64)
    except OverflowError as error:
        raise ValueError(f"a number is beyond ±{LARGEST}") from error
    if column.size and not -LARGEST <= column.min() <= column.max() <= LARGEST:
        raise ValueError(f"a number is beyond ±{LARGEST}")
    return column


def _write_plain(column: IntArray) -> list[int]:
    return column.tolist()  # type: ignore[no-any-return]


def _write_differences(column: IntArray) -> list[int]:
    return np.diff(column, prepend=0).tolist()  # type: ignore[no-any-return]


def _write_rows(columns: IntArray) -> list[list[int]]:
    return [_write_differences(column) for column in columns.T]


def _stored(written: Any, read: Callable[[Any], IntArray], write: Callable[[IntArray], Any]) -> GetPydanticSchema:  # noqa: ANN401  types
    def schema(_: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401  the annotated type
        serialization = core_schema.plain_serializer_function_ser_schema(write)
        return core_schema.no_info_after_validator_function(read, handler(written), serialization=serialization)

    return GetPydanticSchema(schema)


_List = Annotated[list[int], FailFast()]

Plain = Annotated[IntArray, _stored(_List, _plain, _write_plain)]
"""(M,) stored unchanged."""

Differences = Annotated[IntArray, _stored(_List, _summed, _write_differences)]
"""(M,) or (F,), stored as the first entry and the differences after it."""

FrameColumns = Annotated[IntArray, _stored(list[_List], _summed_rows, _write_rows)]
"""(F, N) in memory; stored as one list per mech, in the form of `Differences`."""


LONGEST_NAME = 200

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""No control characters, because names are printed in terminals."""


def require(holds: bool, rule: str) -> None:
    """Check a rule.

    Raises:
        ValueError: It is violated.
    """
    if not holds:
        raise ValueError(rule)


def require_within(values: Sequence[int] | IntArray, count: int, what: str) -> None:
    """Check that values lie from 0 to count - 1.

    Raises:
        ValueError: A value is out of range.
    """
    if len(values) and (np.min(values) < 0 or np.max(values) >= count):
        raise ValueError(f"{what} {np.min(values)} to {np.max(values)}: only 0 to {count - 1} exist")


def to_name(text: str) -> str:
    """Return a valid name: the end of the text, with ? for unprintable characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[-LONGEST_NAME:] or "?"
