"""How sides played in matches, how players play, and the sets of names that such values have."""

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base


class MeasureSet(Base):
    """Names of what behaviours or points of learners' curves are values of, in their order; named by their hash."""

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


class Fingerprint(Base):
    """A player's behaviour by one measure, over the matches up to the mark of its environment."""

    __tablename__ = "fingerprints"

    player_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True)
    measure: Mapped[str] = mapped_column(primary_key=True)
    matches: Mapped[int]
    total: Mapped[float]
    squares: Mapped[float]


class FingerprintMark(Base):
    """Up to which match an environment's fingerprints go, and the last event before them that could change the past."""

    __tablename__ = "fingerprint_marks"

    environment: Mapped[str] = mapped_column(primary_key=True)
    last_match_id: Mapped[int]
    event_id: Mapped[int]
