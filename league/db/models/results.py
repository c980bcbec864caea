"""Results that were refused."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base


class Refusal(Base):
    """A result that was not taken, and what its worker was told; `digest` is of all that it said."""

    __tablename__ = "refusals"
    __table_args__ = (Index(None, "worker_id", "refused_at"),)

    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"), primary_key=True)
    lease_id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[bytes] = mapped_column(primary_key=True)
    status: Mapped[str]
    match_id: Mapped[int | None] = mapped_column(ForeignKey("matches.id"))
    detail: Mapped[str]
    refused_at: Mapped[datetime]
