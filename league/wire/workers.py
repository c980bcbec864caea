"""Processes that play: how they attach and stay attached, and how far they are trusted."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from league.wire.base import Answer, Id, MeasureName, Real, Request, Signature, Step, Text, Time, WorkerName
from league.wire.learners import HealthVerdict, SnapshotDecision
from league.wire.matches import MatchKind

WorkerKind = Literal["trainer", "evaluator", "entrant"]
Command = Literal["continue", "drain", "stop"]
Measure = Literal["score", "length", "refusals"]

METRICS_MAX = 512


class WorkerCreate(Request):
    """A process that wants to play; the same name and kind again, under the same token, is the same worker.

    `instance` tells processes of one name apart: it stays the same as long as they go on with the same work, such as
    a run folder. Each is a worker of its own then, and those after the first get a number behind their name.
    """

    name: WorkerName
    kind: WorkerKind
    version: Annotated[Text, Field(max_length=64)]
    signatures: Annotated[list[Signature], Field(max_length=256)]
    instance: Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{1,64}$")] | None = None


class Worker(Answer):
    """A registered worker: beat every `heartbeat_s`, ask for work again after `next_poll_s`."""

    id: str
    name: str
    kind: WorkerKind
    version: str
    signatures: list[str]
    command: Command
    seen_at: datetime
    heartbeat_s: float
    next_poll_s: float


class Quarantine(Answer):
    """What a worker reports from `since` on does not count, until `until` where that is not null.

    While `lifted_at` is null it gets no leases.
    """

    since: datetime
    until: datetime | None
    reason: str
    actor: str
    imposed_at: datetime
    lifted_at: datetime | None


class WorkerCheck(Answer):
    """How a worker's results fit what others' and the ratings lead to expect.

    `observed` and `expected` are means over `results` reports: home's score, decisions of a match, or the share
    refused. Chance alone exceeds `chi_square`, of so many `degrees` of freedom, with the probability `p_value`.
    """

    measure: Measure
    environment: str | None
    kind: MatchKind | None
    results: int
    observed: float
    expected: float
    chi_square: float
    degrees: int
    p_value: float
    suspect: bool


class ListedWorker(Worker):
    """A worker with how its last results fit; `results` were taken of it, `refused` were not."""

    registered_at: datetime
    quarantine: Quarantine | None
    results: int
    refused: int
    checks: list[WorkerCheck]
    suspect: bool


class WorkerQuarantine(Request):
    """From when on a worker is not trusted, and why."""

    since: Time
    reason: Annotated[Text, Field(min_length=1)]


class WorkerReinstatement(Request):
    """Why a worker is trusted again; `restore` makes what it reported meanwhile count after all."""

    reason: Text = ""
    restore: Annotated[bool, Field(strict=True)] = False


class LearnerProgress(Request):
    """How far a learner has come, with its latest metrics.

    With `since_step`, the step of its last snapshot or 0 before the first, it asks whether the next one is due.
    `verdicts` is what is wrong with its training now, the worst first; null where nobody looks.
    """

    learner_id: Id
    step: Step
    since_step: Step | None = None
    metrics: Annotated[dict[MeasureName, Real | None], Field(max_length=METRICS_MAX)] = {}
    verdicts: Annotated[list[HealthVerdict], Field(max_length=64)] | None = None


class Heartbeat(Request):
    """A sign of life, optionally with progress."""

    learners: Annotated[list[LearnerProgress], Field(max_length=64)] = []


class HeartbeatAnswer(Answer):
    """What the worker is to do next; while it is quarantined it gets no leases and its results do not count.

    For `next_heartbeat_s` it need not beat: who beats more often than a worker must is asked to wait so long.

    `decisions` are of learners that asked and are to leave a snapshot now. A decision stands: who asks again with the
    same `since_step`, and has come as far, hears it again.
    """

    command: Command
    next_poll_s: float
    next_heartbeat_s: float = 0.0
    quarantine: Quarantine | None = None
    decisions: list[SnapshotDecision] = []


class CommandRequest(Request):
    """What a worker is to be told at its next heartbeat, and why."""

    command: Command
    reason: Text = ""
