"""Answers to the calls that come most often."""

from collections.abc import Mapping
from typing import Any

from fastapi.responses import Response
from pydantic import BaseModel
from pydantic_core import to_json


def written(answer: BaseModel | Mapping[str, Any]) -> Response:
    """Serialise an answer once; the framework would check it again."""
    content = answer.model_dump_json() if isinstance(answer, BaseModel) else to_json(answer)
    return Response(content, media_type="application/json")
