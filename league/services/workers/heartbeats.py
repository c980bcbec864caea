"""Heartbeats of workers: liveness, progress of their learners, and commands in response."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Update, bindparam, case, select, update
from sqlalchemy.orm import Session

from league import wire
from league.auth import Principal
from league.db.bulk_insert import among_bound, listed
from league.db.models import Base, LearnerProgress, Quarantine, Worker
from league.errors import LeagueError, UnknownLearnerError
from league.services.auth import ownership
from league.services.population import training_curves
from league.services.workers import service as workers

TextT = TypeVar("TextT", str, ColumnElement[Any])

# Core, not ORM: object mapping costs more than these statements
_WORKERS, _LEARNER_PROGRESS, _QUARANTINES = (
    Base.metadata.tables[each.__tablename__] for each in (Worker, LearnerProgress, Quarantine)
)
_PROGRESS = (
    update(_LEARNER_PROGRESS)
    .where(_LEARNER_PROGRESS.c.learner_id == bindparam("learner"))
    .values(
        step=bindparam("at_step"),
        metrics=bindparam("metrics_json"),
        metrics_at=bindparam("now"),
        verdicts=bindparam("verdicts_json"),
        points=_LEARNER_PROGRESS.c.points + case((_LEARNER_PROGRESS.c.step == bindparam("at_step"), 0), else_=1),
    )
    .returning(_LEARNER_PROGRESS.c.points)
)
"""Updates a learner's progress and returns its number of curve points; a repeated step adds no point."""


@dataclass(frozen=True)
class Heartbeat:
    """One heartbeat of a worker with its learners' progress, its caller and the time."""

    worker_id: str
    learners: Sequence[wire.LearnerProgress]
    caller: Principal
    now: datetime


@dataclass(frozen=True)
class HeartbeatResponse:
    """Response to a heartbeat: the worker's command, and its open quarantine if there is one."""

    command: wire.Command
    quarantine: wire.Quarantine | None


def record_heartbeats(session: Session, heartbeats: Sequence[Heartbeat]) -> list[HeartbeatResponse | LeagueError]:
    """Record heartbeats and learner progress; return each worker's response or its error.

    Heartbeats without progress take one statement for all workers.

    Raises:
        LeagueError: A heartbeat with progress is rejected; the caller must roll back.
    """
    found = _touch(session, heartbeats)
    return [_answer(session, heartbeat, found.get(heartbeat.worker_id)) for heartbeat in heartbeats]


def _touch(session: Session, heartbeats: Sequence[Heartbeat]) -> dict[str, Sequence[Any]]:
    """Set `seen_at` of the workers that their callers may write; return the response columns of each by id."""
    dialect = session.get_bind().dialect.name
    ids = {
        "alive": {heartbeat.worker_id for heartbeat in heartbeats},
        "anybodys": {heartbeat.worker_id for heartbeat in heartbeats if not ownership.is_restricted(heartbeat.caller)},
        "owned": {
            _owner_key(heartbeat.worker_id, heartbeat.caller.name)
            for heartbeat in heartbeats
            if ownership.is_restricted(heartbeat.caller)
        },
    }
    values = {name: listed(dialect, chosen) for name, chosen in ids.items()}
    touched = session.connection().execute(
        _touch_statement(dialect), values | {"now": max(heartbeat.now for heartbeat in heartbeats)}
    )
    return {worker_id: rest for worker_id, *rest in touched}


@cache
def _touch_statement(dialect: str) -> Update:
    """Build the UPDATE ... RETURNING that sets `seen_at`, checks ownership and returns the response columns."""
    quarantined = _WORKERS.c.id.in_(select(_QUARANTINES.c.worker_id).where(_QUARANTINES.c.lifted_at.is_(None)))
    # A list parameter has one column, so worker and owner are compared as one key.
    owned = among_bound(dialect, _owner_key(_WORKERS.c.id, _WORKERS.c.owner), "owned")
    allowed = among_bound(dialect, _WORKERS.c.id, "anybodys") | owned
    alive = update(_WORKERS).where(among_bound(dialect, _WORKERS.c.id, "alive"), allowed)
    touched = alive.values(seen_at=bindparam("now"))
    return touched.returning(_WORKERS.c.id, _WORKERS.c.command, _WORKERS.c.owner, quarantined)


def _owner_key(worker_id: TextT, owner: TextT) -> TextT:
    """Return a key of a worker and its owner; neither contains a line break."""
    return worker_id + "\n" + owner


def _answer(session: Session, heartbeat: Heartbeat, found: Sequence[Any] | None) -> HeartbeatResponse | LeagueError:
    try:
        return _accept(session, heartbeat, found)
    except LeagueError as error:
        if heartbeat.learners:
            # A heartbeat with progress may have written some of it, so the whole request rolls back.
            raise
        return error


def _accept(session: Session, heartbeat: Heartbeat, found: Sequence[Any] | None) -> HeartbeatResponse:
    """Store the progress in a heartbeat and return the response.

    Args:
        session: A write transaction.
        heartbeat: The request.
        found: Command, owner and whether a quarantine is open; None if the update matched no row.

    Raises:
        UnknownWorkerError: The worker must register first.
        ForbiddenError: The worker or a learner belongs to another token.
        UnknownLearnerError: The progress names a learner that does not exist.
    """
    if found is None:
        ownership.require_worker(session, heartbeat.caller, heartbeat.worker_id)
        raise workers.unknown(heartbeat.worker_id)
    command, owner, quarantined = found
    # The batch may have updated the row for a heartbeat of the owner, so the caller is checked again.
    if not ownership.may_write(heartbeat.caller, owner):
        ownership.require_worker(session, heartbeat.caller, heartbeat.worker_id)
    for progress in heartbeat.learners:
        ownership.require_learner(session, heartbeat.caller, progress.learner_id)
        _store_progress(session, progress, heartbeat.now)
    quarantine = workers.quarantine_of(session, heartbeat.worker_id) if quarantined else None
    return HeartbeatResponse(command, None if quarantine is None else wire.Quarantine.of(quarantine))


def _store_progress(session: Session, progress: wire.LearnerProgress, now: datetime) -> None:
    metrics = {name: _finite_or_none(value) for name, value in progress.metrics.items()}
    values = {
        "learner": progress.learner_id,
        "at_step": progress.step,
        "metrics_json": metrics,
        "now": now,
        "verdicts_json": None if progress.verdicts is None else [each.model_dump() for each in progress.verdicts],
    }
    number = session.connection().execute(_PROGRESS, values).scalar_one_or_none()
    if number is None:
        rule = "no learner has this id"
        raise UnknownLearnerError(progress.learner_id, rule, "register it with POST /learners")
    training_curves.add(session, progress.learner_id, number, progress.step, metrics, now)


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
