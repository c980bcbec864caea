"""Quarantine of workers: exclude a worker's results and recompute the ratings without them.

A change is committed first with a `pending_since` mark. The ratings are rebuilt in later transactions, which clear the
mark. If the server stops in between, a periodic task finds the mark and finishes the rebuild.
"""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, select, update

from league import wire
from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Quarantine
from league.errors import InvalidRequestError, WorkerConflictError
from league.services.audit.log import Cause
from league.services.gates import sprt as gate_sprt
from league.services.rating_periods import rebuild
from league.services.workers import service as workers

PENDING_TIMEOUT_S = 600.0
"""Seconds after which a pending rebuild counts as abandoned by its server."""


def impose(
    database: Database, worker_id: str, request: wire.WorkerQuarantine, actor: str, now: datetime
) -> wire.Quarantine:
    """Quarantine a worker from a time on, and recompute the ratings without its results since then.

    Raises:
        UnknownWorkerError: There is no such worker.
        WorkerConflictError: It is quarantined already.
        InvalidRequestError: The time is in the future.
    """
    with database.write() as session:
        locks.acquire(session, Lock.EVENTS)
        worker = workers.require(session, worker_id)
        if request.since > now:
            rule = f"it is later than the server's clock, {now:%Y-%m-%dT%H:%M:%SZ}"
            raise InvalidRequestError(
                f"since={request.since.isoformat()}", rule, "use the time of the first bad result"
            )
        present = workers.quarantine_of(session, worker_id)
        if present is not None:
            rule = f"it has been quarantined since {present.since:%Y-%m-%dT%H:%M:%SZ} ({present.reason})"
            raise WorkerConflictError(worker.name, rule, "reinstate it first")
        imposed = Quarantine(
            worker_id=worker_id,
            since=request.since,
            until=None,
            reason=request.reason,
            actor=actor,
            imposed_at=now,
            lifted_at=None,
            pending_since=now,
        )
        session.add(imposed)
        details = {"since": request.since.isoformat()}
        workers.record(session, "quarantine-worker", worker, details, Cause(actor, request.reason, now))
        body = wire.Quarantine.of(imposed)
    _rate(database, Quarantine.pending_since.is_not(None), now)
    return body


def lift(
    database: Database, worker_id: str, request: wire.WorkerReinstatement, actor: str, now: datetime
) -> wire.Quarantine:
    """Lift a worker's quarantine from now on, or with `restore` void all its quarantines, past ones included.

    Raises:
        UnknownWorkerError: There is no such worker.
        WorkerConflictError: It is not quarantined, or for `restore` never was.
    """
    with database.write() as session:
        locks.acquire(session, Lock.EVENTS)
        worker = workers.require(session, worker_id)
        of_worker = select(Quarantine).where(Quarantine.worker_id == worker_id).order_by(Quarantine.id)
        lifted = [each for each in session.scalars(of_worker) if request.restore or each.lifted_at is None]
        if not lifted:
            raise WorkerConflictError(
                worker.name, "it is not quarantined", "`league worker list` lists quarantined workers"
            )
        for each in lifted:
            each.lifted_at = each.lifted_at or now
            # An empty interval excludes no results.
            each.until = each.since if request.restore else max(now, each.since)
            each.pending_since = now
        body = wire.Quarantine.of(lifted[-1])
        details = {"since": lifted[0].since.isoformat(), "until": max(each.until or now for each in lifted).isoformat()}
        workers.record(session, "reinstate-worker", worker, details, Cause(actor, request.reason, now))
    _rate(database, Quarantine.pending_since.is_not(None), now)
    return body


def finish_pending_ratings(database: Database, now: datetime) -> None:
    """Finish the rebuilds of servers that stopped between a change and its ratings."""
    _rate(database, Quarantine.pending_since <= now - timedelta(seconds=PENDING_TIMEOUT_S), now)


def _rate(database: Database, pending: ColumnElement[bool], now: datetime) -> None:
    with database.read() as session:
        seen = session.execute(select(Quarantine.id, Quarantine.pending_since).where(pending)).all()
    if not seen:
        return
    # Long, so it runs outside of the transaction of the change; the mark remains if it fails.
    rebuild.rebuild(database, now)
    gate_sprt.reevaluate_decided(database, now)
    with database.write() as session:
        for quarantine_id, since in seen:
            # A change made during the rebuild has a newer mark, which must stay until its own rebuild is done.
            unchanged = Quarantine.id == quarantine_id, Quarantine.pending_since == since
            session.execute(update(Quarantine).where(*unchanged).values(pending_since=None))
