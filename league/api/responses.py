"""Responses: JSON that is serialised once, and creations with their `Location`."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi.responses import Response
from pydantic import BaseModel
from pydantic_core import to_json

from league.wire import PREFIX


def json_response(answer: BaseModel | Mapping[str, Any]) -> Response:
    """Serialise an answer once; the framework would check it again."""
    content = answer.model_dump_json() if isinstance(answer, BaseModel) else to_json(answer)
    return Response(content, media_type="application/json")


def created(answer: BaseModel, path: str, *, is_new: bool = True) -> Response:
    """Answer a creation with 201 and the `Location`, or with 200 if it existed before."""
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    headers = {"Location": f"{PREFIX}{path}"}
    return Response(answer.model_dump_json(), status, headers, media_type="application/json")
