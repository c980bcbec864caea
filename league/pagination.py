"""Keyset pagination: pages of a list by the key of their last item."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, SQLColumnExpression

T = TypeVar("T")
SelectT = TypeVar("SelectT", bound="Select[*tuple[Any, ...]]")


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list; `next_cursor` asks for the next one and is None on the last."""

    items: list[T]
    next_cursor: str | None

    @classmethod
    def cut(cls, items: Iterable[T], limit: int, key: Callable[[T], int | str]) -> "Page[T]":
        """Cut a list that was read with `paginate`; the key of the last item that stays is the next cursor."""
        found = list(items)
        return cls(found[:limit], str(key(found[limit - 1])) if len(found) > limit else None)

    @classmethod
    def at(cls, items: list[T], offset: int, limit: int) -> "Page[T]":
        """Return `limit` items of a whole list after the first `offset`."""
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
    """Select the rows after `cursor` in order of a unique column, `limit` of them and one to spare for `Page.cut`."""
    if cursor is not None:
        query = query.where(column < cursor if newest_first else column > cursor)
    return query.order_by(column.desc() if newest_first else column).limit(limit + 1)
