"""Tables of matches, recordings and refused results."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id
from league.wire import MatchKind, ResultStatus


class Match(Base):
    """A finished match. Rows are never updated, and deleted only with their environment."""

    __tablename__ = "matches"
    __table_args__ = (
        UniqueConstraint("lease_id", "sequence"),
        CheckConstraint("kind = 'training' OR home_id <> away_id", name="two_players"),
        CheckConstraint("score >= 0 AND score <= 1", name="score"),
        CheckConstraint("sequence >= 0", name="sequence"),
        CheckConstraint("decisions >= 1", name="decisions"),
        Index(None, "environment", "id"),  # a rating period is a range of ids
        Index(None, "home_id", "id", "away_id"),  # away_id: covers matches of two players against each other
        Index(None, "away_id", "id"),
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    lease_id: Mapped[str] = mapped_column(ForeignKey("leases.id"))
    sequence: Mapped[int]
    kind: Mapped[MatchKind]
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
    """The recording of a match; its file is in the checkpoint store under `key`, see docs/reference/formats.md.

    Notable recordings are stored longer: those of gate matches and of the environment's champion.
    """

    __tablename__ = "replays"
    # Covers the counts and sizes that limit recordings, so that they are added up without reading the rows.
    __table_args__ = (Index(None, "notable", "size_bytes"),)

    match_id: Mapped[int] = mapped_column(ForeignKey("matches.id"), primary_key=True, autoincrement=False)
    key: Mapped[str]
    sha256: Mapped[str]
    size_bytes: Mapped[int]
    notable: Mapped[bool]
    stored_at: Mapped[datetime]


class Refusal(Base):
    """A rejected or conflicting result with the answer that its worker received; `digest` hashes the whole report."""

    __tablename__ = "refusals"
    # For the recent rejections of a worker, by which it is judged, and for their deletion by age.
    __table_args__ = (Index(None, "worker_id", "refused_at"),)

    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"), primary_key=True)
    lease_id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[bytes] = mapped_column(primary_key=True)
    status: Mapped[ResultStatus]
    match_id: Mapped[int | None] = mapped_column(ForeignKey("matches.id"))
    detail: Mapped[str]
    refused_at: Mapped[datetime]
