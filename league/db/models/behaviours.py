"""Tables of behaviour measures."""

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base


class MeasureSet(Base):
    """Names of the measures in a behaviour, in order; the id is their hash."""

    __tablename__ = "measure_sets"

    id: Mapped[str] = mapped_column(primary_key=True)
    measures: Mapped[list[str]]


class Behaviour(Base):
    """Reported behaviour of both sides of a match: float32 values, little-endian, NaN for unknown ones."""

    __tablename__ = "behaviours"

    match_id: Mapped[int] = mapped_column(ForeignKey("matches.id"), primary_key=True, autoincrement=False)
    measure_set_id: Mapped[str] = mapped_column(ForeignKey("measure_sets.id"))
    home: Mapped[bytes]
    away: Mapped[bytes]
