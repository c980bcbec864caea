"""Table of gates."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id
from league.wire import GateState


class Gate(Base):
    """A sequential test of two frozen players. Its leases refer to it; `verdict` is empty while it has none."""

    __tablename__ = "gates"
    __table_args__ = (
        CheckConstraint("candidate_id <> champion_id", name="two_players"),
        CheckConstraint("elo0 < elo1", name="elo"),
        CheckConstraint("alpha > 0 AND alpha < 1 AND beta > 0 AND beta < 1", name="errors"),
        CheckConstraint("least_games >= 0", name="least_games"),
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    environment: Mapped[str]
    candidate_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    champion_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    elo0: Mapped[float]
    elo1: Mapped[float]
    alpha: Mapped[float]
    beta: Mapped[float]
    least_games: Mapped[int]
    state: Mapped[GateState]
    actor: Mapped[str]
    reason: Mapped[str]
    opened_at: Mapped[datetime]
    verdict: Mapped[dict[str, Any]]
    closed_reason: Mapped[str | None]
    closed_at: Mapped[datetime | None]


# Partial unique index: a test may be repeated after it is decided, but only one instance is open at a time.
_TESTED = Gate.candidate_id, Gate.champion_id, Gate.elo0, Gate.elo1, Gate.alpha, Gate.beta, Gate.least_games

Index("uq_gates_open", *_TESTED, unique=True, sqlite_where=Gate.state == "open",
      postgresql_where=Gate.state == "open")  # fmt: skip
