"""Tables of workers, quarantines and unplayable reports."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id, Resolution
from league.wire import Command, WorkerKind


class Worker(Base):
    """A process that plays.

    `owner` is the worker token that registered it; null without authentication. `lost_at` is the time at which it was
    recorded as lost; null after it returns.
    """

    __tablename__ = "workers"
    __table_args__ = (UniqueConstraint("name", "kind"), Index("uq_workers_instance", "kind", "instance", unique=True))

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    instance: Mapped[str | None]
    kind: Mapped[WorkerKind]
    version: Mapped[str]
    signatures: Mapped[list[str]]
    command: Mapped[Command]
    owner: Mapped[str | None]
    registered_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    lost_at: Mapped[datetime | None]


class Quarantine(Base):
    """Exclusion of a worker's results that are reported from `since` until `until`, or without end if that is null.

    The worker gets no leases while `lifted_at` is null. `pending_since` is the time of the last change until the
    ratings are recomputed.
    """

    __tablename__ = "quarantines"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"), index=True)
    since: Mapped[datetime]
    until: Mapped[datetime | None]
    reason: Mapped[str]
    actor: Mapped[str]
    imposed_at: Mapped[datetime]
    lifted_at: Mapped[datetime | None]
    pending_since: Mapped[datetime | None]


# Partial unique index: a worker has any number of past quarantines, but at most one open one.
Index("uq_quarantines_open", Quarantine.worker_id, unique=True, sqlite_where=Quarantine.lifted_at.is_(None),
      postgresql_where=Quarantine.lifted_at.is_(None))  # fmt: skip


class UnplayableReport(Base):
    """A worker's last report that it could not play a player.

    `owner` is the token of the worker. `checked` is true if the server checked the stored bytes without a finding.
    `resolution` is null while the report is open; see `league.services.unplayable_reports.reports`.
    """

    __tablename__ = "unplayable_reports"

    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"), primary_key=True)
    player_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True, index=True)
    owner: Mapped[str | None] = mapped_column(index=True)
    reason: Mapped[str]
    checked: Mapped[bool]
    reported_at: Mapped[datetime]
    resolution: Mapped[Resolution | None]
    resolved_at: Mapped[datetime | None]
