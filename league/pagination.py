"""Keyset pagination: pages of a list by the key of their last item.

Unlike OFFSET, a page costs the same anywhere in the list, and rows inserted meanwhile do not shift it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, SQLColumnExpression

T = TypeVar("T")
SelectT = TypeVar("SelectT", bound="Select[*tuple[Any, ...]]")


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list; `next_cursor` is the cursor of the next page, None on the last."""

    items: list[T]
    next_cursor: str | None

    @classmethod
    def cut(cls, items: Iterable[T], limit: int, key: Callable[[T], int | str]) -> "Page[T]":
        """Return a page of rows read with `paginate`; the key of its last item is the next cursor."""
        found = list(items)
        return cls(found[:limit], str(key(found[limit - 1])) if len(found) > limit else None)

    @classmethod
    def at(cls, items: list[T], offset: int, limit: int) -> "Page[T]":
        """Return `limit` items of a complete list after the first `offset`."""
        end = offset + limit
        return cls(items[offset:end], str(end) if end < len(items) else None)


def paginate(
    query: SelectT,
    column: SQLColumnExpression[Any],
    cursor: int | str | None,
    limit: int,
    *,
    newest_first: bool = False,
) -> SelectT:
    """Select the rows after `cursor` in order of a unique column: `limit` rows and one more to detect the last page."""
    if cursor is not None:
        query = query.where(column < cursor if newest_first else column > cursor)
    return query.order_by(column.desc() if newest_first else column).limit(limit + 1)
