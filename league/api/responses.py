"""Responses: JSON that is serialised once, and pages of a list by the key of their last item."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi.responses import Response
from pydantic import BaseModel
from pydantic_core import to_json

from league.wire import Page

T = TypeVar("T")


def json_response(answer: BaseModel | Mapping[str, Any]) -> Response:
    """Serialise an answer once; the framework would check it again."""
    content = answer.model_dump_json() if isinstance(answer, BaseModel) else to_json(answer)
    return Response(content, media_type="application/json")


def page(items: list[T], limit: int, key: Callable[[T], int | str]) -> Page[T]:
    """Cut a list that was asked for with one item to spare; `key` of the last item kept is the next cursor."""
    kept = items[:limit]
    return Page(items=kept, next_cursor=str(key(kept[-1])) if len(items) > limit else None)
