"""Workers, their quarantines, and their reports of players that cannot be played."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id, Resolution
from league.wire import Command, WorkerKind


class Worker(Base):
    """A process that plays. `owner` is the worker token that registered it; nobody's while the league is open."""

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


class Quarantine(Base):
    """Results of a worker that do not count: those reported from `since` on and before `until`, without end where null.

    `lifted_at` is null while the worker gets no leases. `pending_since` is the time of the last change while ratings do
    not show it.
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


Index("uq_quarantines_open", Quarantine.worker_id, unique=True, sqlite_where=Quarantine.lifted_at.is_(None),
      postgresql_where=Quarantine.lifted_at.is_(None))  # fmt: skip


class UnplayableReport(Base):
    """The last time that a worker could not play a player, and why.

    `owner` is the token that the worker belonged to. `checked` says that the server found nothing wrong with the stored
    bytes. `resolution` is null while the report is open; see `league.services.unplayable_reports.reports`.
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
