"""Table of bearer tokens."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id, TokenScope


class Token(Base):
    """A bearer token, stored as a hash. Revoked tokens stay, so that the server still requires authentication."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    digest: Mapped[str] = mapped_column(unique=True)
    scope: Mapped[TokenScope]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
