"""Table of announced and stored checkpoints."""

from datetime import datetime

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, CheckpointState


class Checkpoint(Base):
    """A checkpoint that is stored or being uploaded; the store is the source of truth, and the row follows its object.

    `owner` is the worker token that uploads it, which counts against its quota. `size_bytes` is the announced size
    until the upload is complete.
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
