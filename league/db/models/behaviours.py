"""How sides played in matches, and the sets of names that such values have."""

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base


class MeasureSet(Base):
    """Names of what behaviours are values of, in their order; named by their hash."""

    __tablename__ = "measure_sets"

    id: Mapped[str] = mapped_column(primary_key=True)
    measures: Mapped[list[str]]


class Behaviour(Base):
    """How both sides of a match played, where that was reported with it: float32 values, little-endian, NaN unknown."""

    __tablename__ = "behaviours"

    match_id: Mapped[int] = mapped_column(ForeignKey("matches.id"), primary_key=True, autoincrement=False)
    measure_set_id: Mapped[str] = mapped_column(ForeignKey("measure_sets.id"))
    home: Mapped[bytes]
    away: Mapped[bytes]
