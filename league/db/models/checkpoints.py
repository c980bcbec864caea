"""Checkpoints: what was announced to the store, and what has arrived there."""

from datetime import datetime

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, CheckpointState


class Checkpoint(Base):
    """Bytes of the store, or on their way into it: the store is the truth, and a row follows its object.

    `owner` is the worker token that sent them, whose quota they count against. `size_bytes` is the announced size until
    they are there.
    """

    __tablename__ = "checkpoints"
    __table_args__ = (
        CheckConstraint("size_bytes >= 0", name="size"),
        CheckConstraint("(state = 'announced') = (stored_at IS NULL)", name="stored_at"),
    )

    sha256: Mapped[str] = mapped_column(primary_key=True)
    size_bytes: Mapped[int]
    owner: Mapped[str | None] = mapped_column(index=True)
    state: Mapped[CheckpointState]
    announced_at: Mapped[datetime]
    stored_at: Mapped[datetime | None]
