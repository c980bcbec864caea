"""Responses: JSON serialised once, and creations with a `Location` header."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi.responses import Response
from pydantic import BaseModel
from pydantic_core import to_json

from league.wire import PREFIX


def json_response(answer: BaseModel | Mapping[str, Any]) -> Response:
    """Serialise a response once; FastAPI would validate it again."""
    content = answer.model_dump_json() if isinstance(answer, BaseModel) else to_json(answer)
    return Response(content, media_type="application/json")


def created(answer: BaseModel, path: str, *, is_new: bool = True) -> Response:
    """Return 201 with the `Location` of a new object, or 200 if it existed before."""
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    headers = {"Location": f"{PREFIX}{path}"}
    return Response(answer.model_dump_json(), status, headers, media_type="application/json")
