"""Webhooks: the position of each receiver in the audit log, and the events that it has not confirmed yet."""

import hashlib
from collections.abc import Collection

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from league.db.models import Event, Webhook
from league.db.upsert import insert_into
from league.services.audit import log as audit_log
from league.services.audit.log import AuditEntry

_READ_MAX = 100


def key(url: str) -> str:
    """Return the key of a receiver, which does not reveal its URL."""
    return hashlib.sha256(url.encode()).hexdigest()


def is_known(session: Session, hook: str) -> bool:
    """Return True if a receiver has a position."""
    return session.get(Webhook, hook) is not None


def add(session: Session, hook: str) -> None:
    """Add a receiver, which gets the events from now on."""
    last = select(func.coalesce(func.max(Event.id), 0)).scalar_subquery()
    statement = insert_into(session, Webhook).values(hook=hook, event_id=last)
    session.execute(statement.on_conflict_do_nothing())


def read_pending(session: Session, hook: str, kinds: Collection[str]) -> list[AuditEntry]:
    """Read the next events that a known receiver has not confirmed, oldest first."""
    confirmed = session.scalars(select(Webhook.event_id).where(Webhook.hook == hook)).one()
    return audit_log.read_after(session, confirmed, _READ_MAX, kinds)


def confirm(session: Session, hook: str, event_id: int) -> None:
    """Move a receiver's position forward to an event."""
    # The condition matters if two processes deliver at the same time.
    session.execute(update(Webhook).where(Webhook.hook == hook, Webhook.event_id < event_id).values(event_id=event_id))
