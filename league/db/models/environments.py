"""Table of environments."""

from datetime import datetime

from sqlalchemy import JSON, CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base


class Environment(Base):
    """A game of the league, created by its first learner or by an admin.

    `signature` is that of its newest learner, null before the first one. `sides` are the names of home and away in an
    asymmetric game. `max_decisions` is the length of its longest match, null until a learner declares it. `owner` is
    the worker token that created it.
    """

    __tablename__ = "environments"
    __table_args__ = (CheckConstraint("max_decisions >= 1", name="max_decisions"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    signature: Mapped[str | None]
    sides: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    max_decisions: Mapped[int | None]
    owner: Mapped[str | None]
    created_at: Mapped[datetime]
