"""Records of pairs of players, and of their sides."""

from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id


class _Record:
    """What a pair's matches up to the last closed period say, for as many columns.

    `matches` is the plain number; the others fade as `arena.evaluation.payoff` has it. The players of a pair are those
    of its matches, so that no constraint looks them up for every record that a period writes. PostgreSQL keeps half of
    each page free: a record that changes stays on its page, and its indices as they are.
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
    """What two players' matches say, from the view of the one with the lower id."""

    __tablename__ = "payoffs"

    low_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    high_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False, index=True)


class SidePayoff(_Record, Base):
    """The same of the matches in which one of them was at home, from its view; only where sides are unlike."""

    __tablename__ = "side_payoffs"

    home_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    away_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
