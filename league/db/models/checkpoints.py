"""Uploads of checkpoints, for quotas."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id


class Upload(Base):
    """Bytes that a worker token has begun to send into the store; `stored_at` is null until they are there."""

    __tablename__ = "uploads"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    owner: Mapped[str] = mapped_column(index=True)
    sha256: Mapped[str] = mapped_column(index=True)
    size_bytes: Mapped[int]
    begun_at: Mapped[datetime]
    stored_at: Mapped[datetime | None]
