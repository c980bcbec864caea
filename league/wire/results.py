"""Bodies of match results; items are validated one by one, so that an invalid one never fails its batch."""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    InstanceOf,
    JsonValue,
    StrictFloat,
    StrictInt,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from league.errors import reason
from league.wire.base import PLAIN, Answer, MeasureName, Real, Request, Text, Unicode, Whole
from league.wire.leases import storable_lease_id

ResultStatus = Literal["accepted", "duplicate", "conflict", "rejected"]


MEASURES_MAX = 64
BATCH_MAX = 10_000

MeasuredValue = Annotated[float, Field(ge=-1e30, le=1e30), PLAIN]


class Behaviour(Request):
    """Behaviour measures of both sides; names contain the units, and values without one are shares."""

    measures: Annotated[list[MeasureName], Field(max_length=MEASURES_MAX)]
    """Names of the measures."""
    home: list[MeasuredValue | None]
    """Home values; null if undefined."""
    away: list[MeasuredValue | None]
    """Away values; null if undefined."""

    @model_validator(mode="after")
    def _require_one_value_a_measure(self) -> Self:
        if len(set(self.measures)) < len(self.measures):
            raise ValueError("measures have different names")
        if not len(self.measures) == len(self.home) == len(self.away):
            sizes = f"{len(self.measures)} measures, {len(self.home)} values of home, {len(self.away)} of away"
            raise ValueError(f"each measure needs a value or null for each side, but there are {sizes}")
        return self


class Result(Request):
    """One finished match."""

    lease_id: Unicode
    """Id of the lease."""
    sequence: Whole
    """Number of the match within its lease, from 0."""
    score: Real
    """Home score in [0, 1]."""
    decisions: Whole
    """Length of the match in decisions."""
    reason: Unicode
    """Reason for the end of the match."""
    seed: Whole
    """Seed of the match."""
    learner_step: Whole | None = None
    """Steps of the learner at the match; null for rating matches."""
    behaviour: Behaviour | None = None
    """Measures of both sides."""


class _PlainResult(Result):
    """Fast path: a result with strictly typed numbers, which pydantic validates without calling Python."""

    sequence: StrictInt
    score: StrictFloat
    decisions: StrictInt
    seed: StrictInt
    learner_step: StrictInt | None = None


_PLAIN_RESULTS = TypeAdapter(Annotated[list[_PlainResult], Field(max_length=BATCH_MAX)])


_EXAMPLE: dict[str, JsonValue] = {
    "lease_id": "0193f2a4",
    "sequence": 0,
    "score": 1.0,
    "decisions": 212,
    "reason": "destroyed",
    "seed": 42,
    "learner_step": 65536,
}


class ResultBatch(Request):
    """Finished matches of one worker."""

    worker_id: Text
    """Id of the worker."""
    results: Annotated[list[Result], Field(max_length=BATCH_MAX)]
    """The matches."""


@dataclass(frozen=True)
class UnreadableResult:
    """An invalid item of a batch with the reason; `content` is the item as text."""

    lease_id: str
    sequence: int
    content: str
    detail: str


def _read_item(item: object, read: ValidatorFunctionWrapHandler) -> Result | UnreadableResult:
    """Validate one item; return an `UnreadableResult` instead of failing the batch."""
    try:
        result: Result = read(item)
    except ValidationError as error:
        return _unreadable(item, error)
    return result


def _read_items(items: object, read: ValidatorFunctionWrapHandler) -> object:
    """Validate all items at once, or one by one, which takes several times as long, if any is unusual."""
    try:
        return _PLAIN_RESULTS.validate_python(items)
    except ValidationError:
        return read(items)


def _unreadable(item: object, error: ValidationError) -> UnreadableResult:
    first = error.errors()[0]
    named = item if isinstance(item, dict) else {}
    lease_id, sequence = named.get("lease_id"), named.get("sequence")
    location = ".".join(str(part) for part in first["loc"][1:]) or "item"
    return UnreadableResult(
        lease_id=lease_id if isinstance(lease_id, str) and storable_lease_id(lease_id) else "",
        sequence=sequence if type(sequence) is int else -1,
        content=repr(item),
        detail=f"unreadable result: {location}={first['input']!a:.120}: {reason(first)}; see /docs for the fields",
    )


class ResultReport(Request):
    """Finished matches of one worker; each gets its own answer."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"worker_id": "0193f2", "results": [_EXAMPLE]}},
    )

    worker_id: Text
    """Id of the worker."""
    results: Annotated[
        list[Annotated[Result | SkipJsonSchema[InstanceOf[UnreadableResult]], WrapValidator(_read_item)]],
        Field(max_length=BATCH_MAX),
        WrapValidator(_read_items),
    ]
    """The matches."""


class ResultAnswer(Answer):
    """Outcome of one result."""

    lease_id: str
    """Id of the lease."""
    sequence: int
    """Number of the match within its lease, from 0."""
    status: ResultStatus
    """`accepted`, `duplicate` (same report before), `conflict` (different report before) or `rejected`."""
    match_id: int | None
    """Id of the match in the log."""
    detail: str | None
    """Reason, unless it was simply accepted."""


class ResultBatchAnswer(Answer):
    """One answer per result, in order."""

    items: list[ResultAnswer]
    """The answers."""
    next_poll_s: float
    """Seconds to wait before the next request for leases."""
