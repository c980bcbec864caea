"""Tables of leases and opponent distributions."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base
from league.wire import LeaseState, MatchKind, Side


class Draw(Base):
    """An opponent distribution that leases were drawn from; the id is the hash of its content.

    After `pruned_at` its opponents are deleted, and the id is still the hash of the original content.
    """

    __tablename__ = "opponent_distributions"

    id: Mapped[str] = mapped_column(primary_key=True)
    distribution: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    pruned_at: Mapped[datetime | None]


class Lease(Base):
    """Permission for one worker to play one pairing. `state` is final once it is released, or swept after its expiry.

    The database does not check that its worker and players exist; `league admin check` does. See
    docs/contributing/decisions/0025-hot-tables-drop-foreign-keys.md.
    """

    __tablename__ = "leases"
    __table_args__ = (
        CheckConstraint("kind = 'training' OR home_id <> away_id", name="two_players"),
        CheckConstraint("budget >= 1", name="budget"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"))
    kind: Mapped[MatchKind]
    environment: Mapped[str]
    home_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    away_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    learner_side: Mapped[Side | None]
    seed: Mapped[int]
    budget: Mapped[int]
    branch: Mapped[str]
    propensity: Mapped[float | None]
    draw_id: Mapped[str] = mapped_column(ForeignKey("opponent_distributions.id"), index=True)
    gate_id: Mapped[int | None]
    granted_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    released_at: Mapped[datetime | None]
    state: Mapped[LeaseState] = mapped_column(server_default="open")


# Partial indexes: few leases are open and few belong to gates, while the table has a row for every lease ever played.
Index("ix_leases_open", Lease.expires_at, sqlite_where=Lease.state == "open", postgresql_where=Lease.state == "open")
Index("ix_leases_gate", Lease.gate_id, Lease.id, sqlite_where=Lease.gate_id.is_not(None),
      postgresql_where=Lease.gate_id.is_not(None))  # fmt: skip
