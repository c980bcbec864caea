"""Tokens of callers."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id, TokenScope


class Token(Base):
    """A bearer token, known by its hash alone. A revoked one stays, so that the server stays closed."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    digest: Mapped[str] = mapped_column(unique=True)
    scope: Mapped[TokenScope]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
