"""What every body shares: the path before the calls, and what requests, answers and pages refuse or tolerate."""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

PREFIX = "/api/v1"
"""Path before every call but health, readiness and metrics."""

PROTOCOL = 1
"""Number of the contract that calls are made by. Fields may be added under one number; where a call of a released
client would be refused or mean something else, the number grows by one."""

PROTOCOL_HEADER = "League-Protocol"

T = TypeVar("T")


class Request(BaseModel):
    """A body that the server reads; NaN and infinities travel as such, for the server to name."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class Answer(BaseModel):
    """A body that the client reads."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Page(Answer, Generic[T]):
    """One page of a list; `next_cursor` asks for the next one and is null on the last."""

    items: list[T]
    next_cursor: str | None
