"""What a field of a request may hold; each refuses what JSON would quietly turn into something else."""

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator, Field
from pydantic_core import PydanticCustomError


def _plain_number(value: object) -> object:
    """Refuse what JSON does not write as a number, but would become one."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("number", "must be a number")
    return value


def _written_time(value: object) -> object:
    """Refuse a time that is not written out; a bare number would become one."""
    if not isinstance(value, str | datetime):
        raise PydanticCustomError("time", "must be a time such as 2030-01-31T12:00:00Z")
    return value


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="lower-case hexadecimal SHA-256")]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\p{L}\p{N}_.+-][\p{L}\p{N}_ .:+-]*$")]
WorkerName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]+$")]
Text = Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")]
Unicode = Annotated[str, Field(max_length=2**20)]  # a bound makes pydantic refuse lone surrogates
EnvironmentName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s\x00]+$")]
Signature = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s\x00]+$")]
MeasureName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]+$")]
PLAIN = BeforeValidator(_plain_number)  # last, or bounds before it are lost from the interface description
Whole = Annotated[int, PLAIN]
Real = Annotated[float, PLAIN]
Id = Annotated[int, Field(ge=1, lt=2**63), PLAIN]
Step = Annotated[int, Field(ge=0, lt=2**53), PLAIN]
Time = Annotated[AwareDatetime, BeforeValidator(_written_time)]
