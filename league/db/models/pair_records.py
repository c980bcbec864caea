"""Tables of pair records, overall and by side."""

from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id


class _Record:
    """Columns of a pair's record up to the last closed period.

    `matches` is the plain number; the others are discounted as in `arena.evaluation.payoff`. The player ids have no
    foreign keys, because a period would check them for every record that it writes. On PostgreSQL half of each page
    stays free, so that an updated record stays on its page and needs no index updates (HOT updates).
    """

    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    environment: Mapped[str] = mapped_column(index=True)
    matches: Mapped[int]
    games: Mapped[float]
    points: Mapped[float]
    wins: Mapped[float]
    draws: Mapped[float]
    losses: Mapped[float]


class Payoff(_Record, Base):
    """Record of two players, from the point of view of the lower id."""

    __tablename__ = "payoffs"

    low_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    high_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False, index=True)


class SidePayoff(_Record, Base):
    """Record of a pair in matches with the first player at home, from its point of view; only for asymmetric games."""

    __tablename__ = "side_payoffs"

    home_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    away_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
