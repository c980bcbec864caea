"""Tables of the audit log and of its webhooks."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id


class Event(Base):
    """An entry of the audit log: actor, change, time and reason."""

    __tablename__ = "events"
    # For the filters of the audit log, newest first, and for the lists of their values.
    __table_args__ = (Index(None, "kind", "id"), Index(None, "actor", "id"))

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    kind: Mapped[str]
    environment: Mapped[str | None]
    player_id: Mapped[int | None] = mapped_column(ForeignKey("players.id"), index=True)
    actor: Mapped[str]
    reason: Mapped[str]
    details: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class Webhook(Base):
    """A receiver of events, by the SHA-256 of its URL, the last event that it confirmed, and its deliveries."""

    __tablename__ = "webhooks"

    hook: Mapped[str] = mapped_column(primary_key=True)
    event_id: Mapped[int] = mapped_column(Id)
    delivered: Mapped[int] = mapped_column(Id, server_default="0")
    failed: Mapped[int] = mapped_column(Id, server_default="0")
    delivered_at: Mapped[datetime | None]


# Partial index: closed periods are most of the events, and the usual page of the log excludes them.
Index("ix_events_no_period", Event.id, sqlite_where=Event.kind != "period", postgresql_where=Event.kind != "period")
