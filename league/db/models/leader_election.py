"""The process that is elected to close the periods of an environment."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base


class LeaderLease(Base):
    """Which process does a duty for all of them, until when."""

    __tablename__ = "leader_leases"

    duty: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    until: Mapped[datetime]
