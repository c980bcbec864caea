"""Workers attach, beat, and are told what to do."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from typing import Any

import numpy as np
from sqlalchemy import bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from league import wire
from league.auth import Principal
from league.config import Settings
from league.db.models import Base, Learner, Quarantine, UnplayableReport, Worker
from league.db.upsert import insert_into
from league.errors import UnknownLearnerError, UnknownWorkerError, WorkerQuarantinedError
from league.services import ownership
from league.services.polling import next_poll_s

_ID_BYTES = 8

Row = dict[str, Any]
_QUARANTINE = select(Quarantine).where(Quarantine.worker_id == bindparam("worker"), Quarantine.lifted_at.is_(None))

# without the object mapper, which costs more than these statements
_WORKERS, _QUARANTINES, _REPORTS = (
    Base.metadata.tables[each.__tablename__] for each in (Worker, Quarantine, UnplayableReport)
)
_PRESENT = (_QUARANTINES.c.worker_id == _WORKERS.c.id) & _QUARANTINES.c.lifted_at.is_(None)
_TRUST = (
    select(
        _WORKERS.c.name,
        _WORKERS.c.signatures,
        _QUARANTINES.c.since,
        _QUARANTINES.c.reason,
        select(_REPORTS.c.worker_id).where(_REPORTS.c.worker_id == _WORKERS.c.id).exists(),
    )
    .select_from(_WORKERS.outerjoin(_QUARANTINES, _PRESENT))
    .where(_WORKERS.c.id == bindparam("worker"))
)
_TOUCH = (
    update(_WORKERS)
    .where(_WORKERS.c.id == bindparam("worker"))
    .values(seen_at=bindparam("now"))
    .returning(_WORKERS.c.command, _QUARANTINE.exists())
)


@dataclass(frozen=True)
class Trusted:
    """A worker that may have leases: the environment signatures that it plays, and whether it ever could not."""

    signatures: Sequence[str]
    reported: bool


def register(
    session: Session,
    settings: Settings,
    request: wire.WorkerCreate,
    caller: Principal,
    now: datetime,
    rng: np.random.Generator,
) -> wire.Worker:
    """Attach a worker. One that comes back keeps its id and forgets old commands.

    It is known by its instance, whatever else has its name; where it says none, by its name, its kind and whose it is.
    A name that is taken gets a number.

    Raises:
        ForbiddenError: The instance is another token's.
    """
    seen = {
        "version": request.version,
        "signatures": request.signatures,
        "command": "continue",
        "seen_at": now,
        "owner": ownership.owner(caller),
    }
    row = {"id": rng.bytes(_ID_BYTES).hex(), "name": request.name, "kind": request.kind, "registered_at": now, **seen}
    worker = (
        _attach(session, caller, row, seen)
        if request.instance is None
        else _attach_instance(session, caller, row | {"instance": request.instance}, seen)
    )
    return body(worker, settings, next_poll_s(settings, rng))


def _attach(session: Session, caller: Principal, row: Row, seen: Row) -> Worker:
    """Find the caller's worker of this name, or make one."""
    for name in _names(row["name"]):
        statement = insert_into(session, Worker).values(row | {"name": name})
        statement = statement.on_conflict_do_update(
            index_elements=["name", "kind"], set_=_kept(caller, seen), where=ownership.own(caller, Worker)
        )
        worker: Worker | None = session.scalar(statement.returning(Worker))
        if worker is not None:
            return worker
    raise AssertionError("names do not end")


def _attach_instance(session: Session, caller: Principal, row: Row, seen: Row) -> Worker:
    """Find the worker of this instance, or make one; the caller's of the name without an instance becomes it."""
    mine = ownership.own(caller, Worker)
    of_kind = Worker.kind == row["kind"]
    same = of_kind, Worker.instance == row["instance"]
    proven = *same, or_(mine, Worker.owner.is_(None))
    nameless = of_kind, Worker.instance.is_(None), Worker.name == row["name"], mine
    values = _kept(caller, seen) | {"instance": row["instance"]}
    for name in _free_names(session, row["name"], row["kind"]):
        for known in (proven, nameless):
            worker: Worker | None = session.scalar(update(Worker).where(*known).values(values).returning(Worker))
            if worker is not None:
                return worker
        statement = insert_into(session, Worker).values(row | {"name": name})
        made: Worker | None = session.scalar(statement.on_conflict_do_nothing().returning(Worker))
        if made is not None:
            return made
        if ownership.bound(caller):
            ownership.require(session.scalar(select(Worker).where(*same)), caller)
    raise AssertionError("names do not end")


def _kept(caller: Principal, seen: Row) -> Row:
    """Return what changes about a worker that comes back: an admin takes none away from its token."""
    return seen if ownership.bound(caller) else {name: value for name, value in seen.items() if name != "owner"}


def _names(name: str) -> Iterator[str]:
    """Return the name itself, and then with a number behind it."""
    return chain([name], _numbered(name, 2))


def _free_names(session: Session, name: str, kind: str) -> Iterator[str]:
    """Return the name itself, and then with numbers from about where they are free: a fleet may share one name."""
    yield name
    alike = Worker.kind == kind, Worker.name.startswith(f"{name} #", autoescape=True)
    yield from _numbered(name, 2 + (session.scalar(select(func.count()).where(*alike)) or 0))


def _numbered(name: str, first: int) -> Iterator[str]:
    return (f"{name} #{number}" for number in count(first))


def heartbeat(
    session: Session,
    settings: Settings,
    worker_id: str,
    beat: wire.Heartbeat,
    now: datetime,
    rng: np.random.Generator,
) -> wire.HeartbeatAnswer:
    """Note a sign of life and the learners' progress; answer what the worker is to do.

    Raises:
        UnknownWorkerError: The worker must register first.
        UnknownLearnerError: Progress of a learner that does not exist.
    """
    touched = session.connection().execute(_TOUCH, {"worker": worker_id, "now": now}).one_or_none()
    if touched is None:
        raise unknown(worker_id)
    command, quarantined = touched
    for progress in beat.learners:
        _note_progress(session, progress, now)
    quarantine = quarantine_of(session, worker_id) if quarantined else None
    told = None if quarantine is None else quarantine_body(quarantine)
    return wire.HeartbeatAnswer.model_validate(
        {"command": command, "next_poll_s": next_poll_s(settings, rng), "quarantine": told}
    )


def command(session: Session, settings: Settings, worker_id: str, request: wire.CommandRequest) -> wire.Worker:
    """Set what a worker is told at its next heartbeat.

    Raises:
        UnknownWorkerError: There is no such worker.
    """
    worker = require(session, worker_id)
    worker.command = request.command
    return body(worker, settings, settings.next_poll_s)


def require(session: Session, worker_id: str) -> Worker:
    """Return a worker.

    Raises:
        UnknownWorkerError: There is no such worker.
    """
    worker = session.get(Worker, worker_id)
    if worker is None:
        raise unknown(worker_id)
    return worker


def require_trusted(session: Session, worker_id: str) -> Trusted:
    """Refuse leases to a worker that must not have any.

    Raises:
        UnknownWorkerError: There is no such worker.
        WorkerQuarantinedError: It is quarantined.
    """
    found = session.connection().execute(_TRUST, {"worker": worker_id}).one_or_none()
    if found is None:
        raise unknown(worker_id)
    name, signatures, since, reason, reported = found
    if since is not None:
        rule = f"what it reports since {since:%Y-%m-%dT%H:%M:%SZ} does not count ({reason})"
        way_out = f"mend it, then have the league's keeper run `league workers reinstate {name!r}`"
        raise WorkerQuarantinedError(name, rule, way_out)
    return Trusted(signatures, reported)


def quarantine_of(session: Session, worker_id: str) -> Quarantine | None:
    """Return the quarantine that a worker is in."""
    return session.scalar(_QUARANTINE, {"worker": worker_id})


def quarantine_body(quarantine: Quarantine) -> wire.Quarantine:
    """Return a quarantine as the wire has it."""
    return wire.Quarantine(
        since=quarantine.since,
        until=quarantine.until,
        reason=quarantine.reason,
        actor=quarantine.actor,
        imposed_at=quarantine.imposed_at,
        lifted_at=quarantine.lifted_at,
    )


def _note_progress(session: Session, progress: wire.LearnerProgress, now: datetime) -> None:
    metrics = {name: _finite_or_none(value) for name, value in progress.metrics.items()}
    noted = update(Learner).where(Learner.id == progress.learner_id).returning(Learner.id)
    if session.scalar(noted.values(step=progress.step, metrics=metrics, metrics_at=now)) is None:
        rule = "no learner has this id"
        raise UnknownLearnerError(progress.learner_id, rule, "register it with POST /learners")


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def unknown(worker_id: str) -> UnknownWorkerError:
    """Return the error about a worker that does not exist."""
    return UnknownWorkerError(worker_id, "no worker has this id", "register with POST /workers")


def body(worker: Worker, settings: Settings, poll_s: float) -> wire.Worker:
    """Return a worker as the wire has it."""
    return wire.Worker.model_validate(
        {
            "id": worker.id,
            "name": worker.name,
            "kind": worker.kind,
            "version": worker.version,
            "signatures": worker.signatures,
            "command": worker.command,
            "seen_at": worker.seen_at,
            "heartbeat_s": settings.heartbeat_s,
            "next_poll_s": poll_s,
        }
    )
