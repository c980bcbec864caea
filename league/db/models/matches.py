"""Tables of matches: the draws and leases they are played by, and their recordings."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id


class Draw(Base):
    """A distribution that leases were drawn from, named by the hash of its content.

    Since `pruned_at` its opponents are forgotten, and the name is that of the content it had.
    """

    __tablename__ = "draws"

    id: Mapped[str] = mapped_column(primary_key=True)
    distribution: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    pruned_at: Mapped[datetime | None]


class Lease(Base):
    """Permission for one worker to play one pairing. `state` is settled when it is released, or swept after its end.

    PostgreSQL does not check that its worker and players exist; `league check` does. See
    docs/decisions/068-leases-are-stored-unchecked.md.
    """

    __tablename__ = "leases"

    id: Mapped[str] = mapped_column(primary_key=True)
    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"))
    kind: Mapped[str]
    environment: Mapped[str]
    home_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    away_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    learner_side: Mapped[str | None]
    seed: Mapped[int]
    budget: Mapped[int]
    branch: Mapped[str]
    propensity: Mapped[float | None]
    draw_id: Mapped[str] = mapped_column(ForeignKey("draws.id"), index=True)
    gate_id: Mapped[int | None]
    granted_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    released_at: Mapped[datetime | None]
    state: Mapped[str] = mapped_column(server_default="open")


Index("ix_leases_open", Lease.expires_at, sqlite_where=Lease.state == "open", postgresql_where=Lease.state == "open")
Index("ix_leases_gate", Lease.gate_id, Lease.id, sqlite_where=Lease.gate_id.is_not(None),
      postgresql_where=Lease.gate_id.is_not(None))  # fmt: skip


class Match(Base):
    """One finished match. Never updated, never deleted."""

    __tablename__ = "matches"
    __table_args__ = (
        UniqueConstraint("lease_id", "sequence"),
        Index(None, "environment", "id"),
        Index(None, "home_id", "id"),
        Index(None, "away_id", "id"),
        Index(None, "home_id", "away_id", "id"),
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    lease_id: Mapped[str] = mapped_column(ForeignKey("leases.id"))
    sequence: Mapped[int]
    kind: Mapped[str]
    environment: Mapped[str]
    home_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    away_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    score: Mapped[float]
    decisions: Mapped[int]
    reason: Mapped[str]
    seed: Mapped[int]
    learner_step: Mapped[int | None]
    late: Mapped[bool]
    payload_hash: Mapped[bytes]
    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"))
    reported_at: Mapped[datetime]


class Replay(Base):
    """The recording of a match: `content` is its file as docs/replays.md describes it.

    A notable one stays longer than others: the match was played for a gate, or by its environment's champion.
    """

    __tablename__ = "replays"
    __table_args__ = (Index(None, "notable", "size_bytes"),)

    match_id: Mapped[int] = mapped_column(ForeignKey("matches.id"), primary_key=True, autoincrement=False)
    sha256: Mapped[str]
    size_bytes: Mapped[int]
    notable: Mapped[bool]
    stored_at: Mapped[datetime]
    content: Mapped[bytes]
