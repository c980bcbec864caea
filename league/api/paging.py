"""Pages of a list, by the key of their last item."""

from collections.abc import Callable
from typing import TypeVar

from league.wire import Page

T = TypeVar("T")


def page(items: list[T], limit: int, key: Callable[[T], int | str]) -> Page[T]:
    """Cut a list that was asked for with one item to spare; `key` of the last item kept is the next cursor."""
    kept = items[:limit]
    return Page(items=kept, next_cursor=str(key(kept[-1])) if len(items) > limit else None)
