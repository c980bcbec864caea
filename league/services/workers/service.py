"""Workers: lookup, commands and the checks before a lease."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import quote
from typing import Any

from sqlalchemy import Row, bindparam, func, select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Base, Quarantine, UnplayableReport, Worker
from league.errors import UnknownWorkerError, WorkerQuarantinedError
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.settings import Settings

_QUARANTINE = select(Quarantine).where(Quarantine.worker_id == bindparam("worker"), Quarantine.lifted_at.is_(None))

# Core, not ORM: object mapping costs more than these statements
_WORKERS, _QUARANTINES, _REPORTS = (
    Base.metadata.tables[each.__tablename__] for each in (Worker, Quarantine, UnplayableReport)
)
_PRESENT = (_QUARANTINES.c.worker_id == _WORKERS.c.id) & _QUARANTINES.c.lifted_at.is_(None)
TRUST = (
    select(
        _WORKERS.c.name,
        _WORKERS.c.signatures,
        _QUARANTINES.c.since,
        _QUARANTINES.c.reason,
        select(_REPORTS.c.worker_id).where(_REPORTS.c.worker_id == _WORKERS.c.id).exists().label("reported"),
    )
    .select_from(_WORKERS.outerjoin(_QUARANTINES, _PRESENT))
    .where(_WORKERS.c.id == bindparam("worker"))
)
"""Selects the columns that `trusted` checks, of the worker with the bound id `worker`."""


@dataclass(frozen=True)
class Trusted:
    """A worker that may have leases: its environment signatures, and whether it ever reported an unplayable player."""

    signatures: Sequence[str]
    reported: bool


def command(
    session: Session, settings: Settings, worker_id: str, request: wire.CommandRequest, actor: str, now: datetime
) -> wire.Worker:
    """Set the command that a worker receives with its next heartbeat.

    Raises:
        UnknownWorkerError: There is no such worker.
    """
    worker = require(session, worker_id)
    before, worker.command = worker.command, request.command
    record(session, f"{request.command}-worker", worker, {"from": before}, Cause(actor, request.reason, now))
    return wire.Worker.of(worker, heartbeat_s=settings.heartbeat_s, next_poll_s=settings.next_poll_s)


def present(session: Session, heartbeat_s: float, now: datetime) -> int:
    """Count live workers: those seen within the last two heartbeat intervals."""
    # One missed heartbeat is tolerated.
    alive = _WORKERS.c.seen_at > now - timedelta(seconds=2.0 * heartbeat_s)
    return session.connection().execute(select(func.count()).where(alive)).scalar_one()


def record(session: Session, kind: str, worker: Worker, details: dict[str, str], cause: Cause) -> None:
    """Append an event about a worker to the audit log, as the last statement of a transaction."""
    audit_log.record(session, kind, cause, details={"worker_id": worker.id, "worker": worker.name, **details})


def require(session: Session, worker_id: str) -> Worker:
    """Return the worker with an id.

    Raises:
        UnknownWorkerError: There is no such worker.
    """
    worker = session.get(Worker, worker_id)
    if worker is None:
        raise unknown(worker_id)
    return worker


def require_trusted(session: Session, worker_id: str) -> Trusted:
    """Return the worker if it may have leases.

    Raises:
        UnknownWorkerError: There is no such worker.
        WorkerQuarantinedError: It is quarantined.
    """
    return trusted(worker_id, session.connection().execute(TRUST, {"worker": worker_id}).one_or_none())


def trusted(worker_id: str, found: Row[*tuple[Any, ...]] | None) -> Trusted:
    """Return the worker if it may have leases, given its row of `TRUST`.

    Raises:
        UnknownWorkerError: There is no such worker.
        WorkerQuarantinedError: It is quarantined.
    """
    if found is None:
        raise unknown(worker_id)
    if found.since is not None:
        rule = f"its results since {found.since:%Y-%m-%dT%H:%M:%SZ} do not count ({found.reason})"
        remedy = f"fix it, then ask an operator of the league to run `league worker reinstate {quote(found.name)}`"
        raise WorkerQuarantinedError(found.name, rule, remedy)
    return Trusted(found.signatures, found.reported)


def quarantine_of(session: Session, worker_id: str) -> Quarantine | None:
    """Return the worker's open quarantine, or None."""
    return session.scalar(_QUARANTINE, {"worker": worker_id})


def unknown(worker_id: str) -> UnknownWorkerError:
    """Return the error for an unknown worker id."""
    return UnknownWorkerError(worker_id, "no worker has this id", "register with POST /workers")
