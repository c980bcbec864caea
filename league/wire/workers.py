"""Bodies of workers: registration, heartbeats, commands, reviews and quarantine."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from league.wire.base import Answer, Id, MeasureName, Real, Request, Signature, Step, Text, Time, WorkerName
from league.wire.learners import HealthVerdict, SnapshotDecision
from league.wire.matches import MatchKind

WorkerKind = Literal["trainer", "evaluator", "entrant"]
Command = Literal["continue", "drain", "stop"]
Measure = Literal["score", "length", "refusals"]

METRICS_MAX = 512


class WorkerCreate(Request):
    """A process that wants to play; idempotent by instance, or by name, kind and token."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"name": "gpu-0", "kind": "trainer", "version": "0.1.0", "signatures": ["mech-duel-1"]}
        }
    )

    name: WorkerName
    """Its name."""
    kind: WorkerKind
    """Kind of worker."""
    version: Annotated[Text, Field(max_length=64)]
    """Version of its software."""
    signatures: Annotated[list[Signature], Field(max_length=256)]
    """Environment builds that it can play."""
    instance: Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{1,64}$")] | None = None
    """Secret id that distinguishes processes of one name; keep it across restarts of the same run."""


class Worker(Answer):
    """A registered worker."""

    id: str
    """Its id."""
    name: str
    """Its name."""
    kind: WorkerKind
    """Kind of worker."""
    version: str
    """Version of its software."""
    signatures: list[str]
    """Environment builds that it can play."""
    command: Command
    """Current command."""
    seen_at: datetime
    """Time of its last heartbeat or registration."""
    heartbeat_s: float
    """Seconds between heartbeats."""
    next_poll_s: float
    """Seconds to wait before the next request for leases."""


class Quarantine(Answer):
    """An interval in which a worker's results do not count."""

    since: datetime
    """Start of the interval."""
    until: datetime | None
    """End of the interval; null for no end."""
    reason: str
    """Reason in words."""
    actor: str
    """Token, rule or process that imposed it."""
    imposed_at: datetime
    """Time at which it was imposed."""
    lifted_at: datetime | None
    """Time at which it was lifted; until then the worker gets no leases."""


class WorkerCheck(Answer):
    """Statistical comparison of a worker's results with those of other workers."""

    measure: Measure
    """Compared quantity."""
    environment: str | None
    """Null for all."""
    kind: MatchKind | None
    """Kind of matches; null for all."""
    results: int
    """Number of compared reports."""
    observed: float
    """Mean over the worker's reports."""
    expected: float
    """Expected mean."""
    chi_square: float
    """Test statistic."""
    degrees: int
    """Degrees of freedom."""
    p_value: float
    """Probability of a larger statistic by chance."""
    suspect: bool
    """Whether the p-value is below the alarm level."""


class ListedWorker(Worker):
    """A worker with the review of its latest results."""

    registered_at: datetime
    """Time of its first registration."""
    quarantine: Quarantine | None
    """Its open quarantine."""
    results: int
    """Number of reviewed results."""
    refused: int
    """Number of rejected results."""
    checks: list[WorkerCheck]
    """Comparisons with other workers."""
    suspect: bool
    """Whether any check is suspect."""


class WorkerQuarantine(Request):
    """Quarantine of a worker."""

    since: Time
    """Results from this time on do not count."""
    reason: Annotated[Text, Field(min_length=1)]
    """Reason in words."""


class WorkerReinstatement(Request):
    """Reinstatement of a worker."""

    reason: Text = ""
    """Reason in words."""
    restore: Annotated[bool, Field(strict=True)] = False
    """Whether the excluded results count again."""


class LearnerProgress(Request):
    """Progress of a learner."""

    learner_id: Id
    """Id of the learner."""
    step: Step
    """Number of steps so far."""
    since_step: Step | None = None
    """Step of the last snapshot, to request the decision about the next one; null for no request."""
    metrics: Annotated[dict[MeasureName, Real | None], Field(max_length=METRICS_MAX)] = {}
    """Latest value of each metric."""
    verdicts: Annotated[list[HealthVerdict], Field(max_length=64)] | None = None
    """Findings about its training, worst first."""


class Heartbeat(Request):
    """A heartbeat, optionally with progress."""

    model_config = ConfigDict(json_schema_extra={"example": {"learners": [{"learner_id": 1, "step": 65536}]}})

    learners: Annotated[list[LearnerProgress], Field(max_length=64)] = []
    """Progress of its learners."""


class HeartbeatAnswer(Answer):
    """Response to a heartbeat."""

    command: Command
    """Command to the worker."""
    next_poll_s: float
    """Seconds to wait before the next request for leases."""
    next_heartbeat_s: float = 0.0
    """Seconds until the next heartbeat is due."""
    quarantine: Quarantine | None = None
    """Open quarantine: the worker gets no leases, and its results do not count."""
    decisions: list[SnapshotDecision] = []
    """Snapshots that are due; repeated until they are published."""


class CommandRequest(Request):
    """A command that a worker receives with its next heartbeat."""

    command: Command
    """The command."""
    reason: Text = ""
    """Reason in words."""
