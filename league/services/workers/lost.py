"""Lost workers: those that stopped sending heartbeats without a command to drain or stop."""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, select, update
from sqlalchemy.orm import Session

from league.db.models import Quarantine, Worker
from league.services.audit.log import RULE, Cause
from league.services.workers import service as workers
from league.settings import MISSED_HEARTBEATS

LOST = "lost-worker"
"""Kind of the event."""


def any_change(session: Session, heartbeat_s: float, now: datetime) -> bool:
    """Return True if `record` would change something."""
    lost, returned = _lost(heartbeat_s, now), _returned()
    return session.scalar(select(Worker.id).where(lost | returned).limit(1)) is not None


def record(session: Session, heartbeat_s: float, now: datetime) -> list[str]:
    """Record an event for each newly lost worker, and forget those that have returned; return the lost names.

    Idempotent: a worker is recorded once until it returns.
    """
    session.execute(update(Worker).where(_returned()).values(lost_at=None))
    newly = update(Worker).where(_lost(heartbeat_s, now)).values(lost_at=now).returning(Worker)
    lost = sorted(session.scalars(newly), key=lambda worker: worker.name)
    for worker in lost:
        reason = f"no heartbeat since {worker.seen_at:%Y-%m-%d %H:%M:%S} UTC"
        workers.record(session, LOST, worker, {"kind": worker.kind}, Cause(RULE, reason, now))
    return [worker.name for worker in lost]


def _lost(heartbeat_s: float, now: datetime) -> ColumnElement[bool]:
    overdue = Worker.seen_at < now - timedelta(seconds=MISSED_HEARTBEATS * heartbeat_s)
    quarantined = (
        select(Quarantine.id).where(Quarantine.worker_id == Worker.id, Quarantine.lifted_at.is_(None)).exists()
    )
    return and_(overdue, Worker.lost_at.is_(None), Worker.command == "continue", ~quarantined)


def _returned() -> ColumnElement[bool]:
    return and_(Worker.lost_at.is_not(None), Worker.seen_at > Worker.lost_at)
