"""Processes that play: how they attach and stay attached, and how far they are trusted."""

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
    """A process that wants to play; the same name and kind again, under the same token, is the same worker."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"name": "gpu-0", "kind": "trainer", "version": "0.1.0", "signatures": ["mech-duel-1"]}
        }
    )

    name: WorkerName
    """Its name."""
    kind: WorkerKind
    """What it does."""
    version: Annotated[Text, Field(max_length=64)]
    """Version of its software."""
    signatures: Annotated[list[Signature], Field(max_length=256)]
    """Environment builds that it can play."""
    instance: Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{1,64}$")] | None = None
    """Tells processes of one name apart; keep it for as long as the work goes on."""


class Worker(Answer):
    """A registered worker."""

    id: str
    """Its id."""
    name: str
    """Its name."""
    kind: WorkerKind
    """What it does."""
    version: str
    """Version of its software."""
    signatures: list[str]
    """Environment builds that it can play."""
    command: Command
    """What the worker is to do."""
    seen_at: datetime
    """Its last sign of life."""
    heartbeat_s: float
    """Seconds between heartbeats."""
    next_poll_s: float
    """Seconds to wait before asking for work again."""


class Quarantine(Answer):
    """A time in which a worker's results do not count."""

    since: datetime
    """First moment of it."""
    until: datetime | None
    """Last moment; null for no end."""
    reason: str
    """Why, in words."""
    actor: str
    """Token, rule or process that did it."""
    imposed_at: datetime
    """When it was imposed."""
    lifted_at: datetime | None
    """When it was lifted; until then it gets no leases."""


class WorkerCheck(Answer):
    """How a worker's results fit those of others."""

    measure: Measure
    """What was compared."""
    environment: str | None
    """Null for all."""
    kind: MatchKind | None
    """Kind of matches; null for all."""
    results: int
    """Reports that it is over."""
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
    """Whether that is suspiciously small."""


class ListedWorker(Worker):
    """A worker with the review of its last results."""

    registered_at: datetime
    """When it registered."""
    quarantine: Quarantine | None
    """Its open quarantine."""
    results: int
    """Results accepted from it."""
    refused: int
    """Results rejected."""
    checks: list[WorkerCheck]
    """Comparisons with other workers."""
    suspect: bool
    """Whether any of them is suspicious."""


class WorkerQuarantine(Request):
    """Quarantine of a worker."""

    since: Time
    """Results from then on do not count."""
    reason: Annotated[Text, Field(min_length=1)]
    """Why, in words."""


class WorkerReinstatement(Request):
    """Reinstatement of a worker."""

    reason: Text = ""
    """Why, in words."""
    restore: Annotated[bool, Field(strict=True)] = False
    """Whether its results meanwhile count after all."""


class LearnerProgress(Request):
    """Progress of a learner."""

    learner_id: Id
    """Id of the learner."""
    step: Step
    """Its steps so far."""
    since_step: Step | None = None
    """Asks whether the snapshot after this step is due; null does not ask."""
    metrics: Annotated[dict[MeasureName, Real | None], Field(max_length=METRICS_MAX)] = {}
    """Latest values."""
    verdicts: Annotated[list[HealthVerdict], Field(max_length=64)] | None = None
    """Findings about its training, worst first."""


class Heartbeat(Request):
    """A sign of life, optionally with progress."""

    model_config = ConfigDict(json_schema_extra={"example": {"learners": [{"learner_id": 1, "step": 65536}]}})

    learners: Annotated[list[LearnerProgress], Field(max_length=64)] = []
    """Progress of its learners."""


class HeartbeatAnswer(Answer):
    """What the worker is to do next."""

    command: Command
    """What the worker is to do."""
    next_poll_s: float
    """Seconds to wait before asking for work again."""
    next_heartbeat_s: float = 0.0
    """Seconds until the next heartbeat is needed."""
    quarantine: Quarantine | None = None
    """Its open quarantine: it gets no leases, and its results do not count."""
    decisions: list[SnapshotDecision] = []
    """Snapshots that are due; repeated until they are published."""


class CommandRequest(Request):
    """The command that a worker gets at its next heartbeat."""

    command: Command
    """What the worker is to do."""
    reason: Text = ""
    """Why, in words."""
