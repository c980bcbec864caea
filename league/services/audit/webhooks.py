"""Webhooks: the position of each receiver in the audit log, events that it has not confirmed, and its deliveries."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from sqlalchemy import case, func, select, update
from sqlalchemy.orm import Session

from league.db.models import Event, Webhook
from league.db.upsert import insert_into
from league.services.audit import log as audit_log
from league.services.audit.log import AuditEntry
from league.settings import WebhookConfig

_READ_MAX = 100


@dataclass(frozen=True)
class DeliveryCounts:
    """Deliveries to one receiver since the league knows it.

    Attributes:
        delivered: Number of confirmed deliveries.
        failed: Number of failed attempts.
        delivered_at: Time of the last confirmed delivery, or None.
        lag_s: Age of the oldest event that is not confirmed, or 0.
    """

    delivered: int
    failed: int
    delivered_at: datetime | None
    lag_s: float


def key(url: str) -> str:
    """Return the key of a receiver, which does not reveal its URL."""
    return hashlib.sha256(url.encode()).hexdigest()


def is_known(session: Session, hook: str) -> bool:
    """Return True if a receiver has a position."""
    return session.get(Webhook, hook) is not None


def add(session: Session, hook: str) -> None:
    """Add a receiver, which gets the events from now on."""
    last = select(func.coalesce(func.max(Event.id), 0)).scalar_subquery()
    # Another server may have added the receiver meanwhile: its position stays, so no event is skipped.
    statement = insert_into(session, Webhook).values(hook=hook, event_id=last)
    session.execute(statement.on_conflict_do_nothing())


def read_pending(session: Session, hook: str, kinds: Collection[str]) -> list[AuditEntry]:
    """Read the next events that a known receiver has not confirmed, oldest first."""
    confirmed = session.scalars(select(Webhook.event_id).where(Webhook.hook == hook)).one()
    return audit_log.read_after(session, confirmed, _READ_MAX, kinds)


def confirm(session: Session, hook: str, event_id: int, now: datetime) -> None:
    """Count a delivery, and move a receiver's position forward to its event."""
    # The condition matters if two processes deliver at the same time.
    position = case((Webhook.event_id < event_id, event_id), else_=Webhook.event_id)
    changes = {"event_id": position, "delivered": Webhook.delivered + 1, "delivered_at": now}
    session.execute(update(Webhook).where(Webhook.hook == hook).values(changes))


def count_failure(session: Session, hook: str) -> None:
    """Count an attempt that failed."""
    session.execute(update(Webhook).where(Webhook.hook == hook).values(failed=Webhook.failed + 1))


def label(url: str) -> str:
    """Return the host of a receiver and the beginning of its key; the path of the URL often contains a secret."""
    return f"{urlsplit(url).hostname} {key(url)[:6]}"


def read_counts(session: Session, config: WebhookConfig, now: datetime) -> dict[str, DeliveryCounts]:
    """Return the counts of the configured receivers that the league knows, by label."""
    labels = {key(url): label(url) for url in config.urls}
    after = select(func.min(Event.created_at)).where(Event.id > Webhook.event_id, Event.kind.in_(config.events))
    rows = session.execute(select(Webhook, after.correlate(Webhook).scalar_subquery()).where(Webhook.hook.in_(labels)))
    return {
        labels[hook.hook]: DeliveryCounts(
            hook.delivered, hook.failed, hook.delivered_at, 0.0 if since is None else (now - since).total_seconds()
        )
        for hook, since in rows
    }
