"""Base classes of requests and responses, their field types, and the health response."""

import ast
import inspect
import json
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Generic, Literal, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, from_json, to_json

from league.wire import frames

if TYPE_CHECKING:
    import pandas as pd

PREFIX = "/api/v1"
"""Path prefix of every call except health, readiness and metrics."""

PROTOCOL = 1
"""Version of the HTTP contract. Fields may be added within a version. A change that rejects or reinterprets a call of a
released client increments it.
"""

PROTOCOL_HEADER = "League-Protocol"

T = TypeVar("T")


class Described(BaseModel):
    """Base of all bodies: docstrings below fields become their descriptions in the OpenAPI schema.

    They are read only when the schema is built: pydantic's `use_attribute_docstrings` parses the source of every model
    at import, which takes a tenth of a second.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON schema with the descriptions of the fields."""
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        for name, text in _field_docstrings(cls).items():
            if name in schema.get("properties", {}):
                schema["properties"][name]["description"] = text
        return reference


def _field_docstrings(kind: type[BaseModel]) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, Described) and "[" not in base.__name__:
            (definition,) = ast.parse(inspect.getsource(base)).body
            for field, text in pairwise(getattr(definition, "body", ())):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    found[ast.unparse(field.target)] = ast.literal_eval(text.value)
    return found


class Request(Described):
    """A request body. NaN and infinities are transmitted, so that the server can report them."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class Answer(Described):
    """A response body."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @classmethod
    def of(cls, source: object, **values: object) -> Self:
        """Build a body from the attributes of an object; `values` take precedence."""
        found = {name: getattr(source, name) for name in cls.model_fields if name not in values}
        return cls.model_validate(found | values)


class Page(Answer, Generic[T]):
    """One page of a list."""

    items: list[T]
    """The items."""
    next_cursor: str | None
    """`cursor` of the next page; null on the last."""

    def to_pandas(self) -> "pd.DataFrame":
        """Return a table with one row per item; it needs the extra `pandas`."""
        return frames.rows(cast("list[BaseModel]", self.items))


def _plain_number(value: object) -> object:
    """Reject booleans and strings, which pydantic would convert to numbers."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("number", "must be a number")
    return value


def _written_time(value: object) -> object:
    """Reject numbers, which pydantic would convert to times."""
    if not isinstance(value, str | datetime):
        raise PydanticCustomError("time", "must be a time such as 2030-01-31T12:00:00Z")
    return value


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="lower-case hexadecimal SHA-256")]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\p{L}\p{N}_.+-][\p{L}\p{N}_ .:+-]*$")]
WorkerName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]+$")]
Text = Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")]
Unicode = Annotated[str, Field(max_length=2**20)]  # a length limit makes pydantic reject lone surrogates
EnvironmentName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s\x00]+$")]
Signature = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s\x00]+$")]
MeasureName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]+$")]
PLAIN = BeforeValidator(_plain_number)  # last, or the bounds before it are missing in the OpenAPI schema
Whole = Annotated[int, PLAIN]
Real = Annotated[float, PLAIN]
Id = Annotated[int, Field(ge=1, lt=2**63), PLAIN]
Step = Annotated[int, Field(ge=0, lt=2**53), PLAIN]
Time = Annotated[AwareDatetime, BeforeValidator(_written_time)]

METADATA_MAX_BYTES = 64 * 2**10  # as JSON


def _storable(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Reject metadata that the databases cannot store, or a page of players could not contain."""
    size = len(json.dumps(metadata, allow_nan=False))
    if size > METADATA_MAX_BYTES:
        raise ValueError(f"it takes {size} bytes of at most {METADATA_MAX_BYTES}")
    text = to_json({"items": [{"metadata": metadata}]})  # fails on lone surrogates
    from_json(text)  # fails if it is nested too deeply
    if b"\\u0000" in text:
        raise ValueError("text must not contain NUL")
    return metadata


Metadata = Annotated[dict[str, JsonValue], AfterValidator(_storable)]


class Health(Answer):
    """Liveness or readiness."""

    status: Literal["ok", "unready"]
    """`ok`, or `unready` if a check failed."""
    checks: dict[str, str]
    """Result of each check: `ok`, or the error."""
