"""Tables of what the processes of the league note: the audit log, uploads, who does which duty."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id


class Event(Base):
    """The audit log: who changed what, when and why."""

    __tablename__ = "events"
    __table_args__ = (Index(None, "kind", "id"), Index(None, "actor", "id"))

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    kind: Mapped[str]
    environment: Mapped[str | None]
    player_id: Mapped[int | None] = mapped_column(ForeignKey("players.id"), index=True)
    actor: Mapped[str]
    reason: Mapped[str]
    details: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


Index("ix_events_no_period", Event.id, sqlite_where=Event.kind != "period", postgresql_where=Event.kind != "period")


class Upload(Base):
    """Bytes that a worker token has begun to send into the store; `stored_at` is null until they are there."""

    __tablename__ = "uploads"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    owner: Mapped[str] = mapped_column(index=True)
    sha256: Mapped[str] = mapped_column(index=True)
    size_bytes: Mapped[int]
    begun_at: Mapped[datetime]
    stored_at: Mapped[datetime | None]


class Election(Base):
    """Which process does a duty for all of them, until when."""

    __tablename__ = "elections"

    duty: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    until: Mapped[datetime]
