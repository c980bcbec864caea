"""Tables that a period writes when it closes."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, ForeignKey, Index, UniqueConstraint, false, func, select
from sqlalchemy.orm import Mapped, aliased, mapped_column

from league.db.models.base import Base, Id


class Period(Base):
    """A closed rating period, with the rating rule it was closed under.

    Rating the whole log again under another rule makes a new `version` of all periods, numbered on from the last; the
    newest one is in force. `refitted` says that the whole history was fitted at the period's end.
    """

    __tablename__ = "periods"
    __table_args__ = (UniqueConstraint("environment", "number"), Index(None, "environment", "last_match_id"))

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    environment: Mapped[str]
    version: Mapped[int] = mapped_column(server_default="1")
    number: Mapped[int]
    last_match_id: Mapped[int]
    matches: Mapped[int]
    players: Mapped[int]
    rule: Mapped[dict[str, Any]]
    refitted: Mapped[bool] = mapped_column(server_default=false())
    reason: Mapped[str]
    closed_at: Mapped[datetime]

    @classmethod
    def current_version(cls) -> ColumnElement[bool]:
        """Return the condition that a period is of the newest version of its environment."""
        other = aliased(cls)
        newest = select(func.max(other.version)).where(other.environment == cls.environment)
        return cls.version == newest.correlate(cls).scalar_subquery()


class Rating(Base):
    """A player's rating after a period that changed it; `games` and `score` count from its start."""

    __tablename__ = "ratings"

    player_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True)
    period_id: Mapped[int] = mapped_column(ForeignKey("periods.id"), primary_key=True, index=True)
    rating: Mapped[float]
    deviation: Mapped[float]
    volatility: Mapped[float]
    games: Mapped[int]
    score: Mapped[float]


class SideRating(Base):
    """A player's rating on one side, `home` or `away`, after a period that changed it; only where sides are unlike."""

    __tablename__ = "side_ratings"

    player_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True)
    side: Mapped[str] = mapped_column(primary_key=True)
    period_id: Mapped[int] = mapped_column(ForeignKey("periods.id"), primary_key=True, index=True)
    rating: Mapped[float]
    deviation: Mapped[float]
    volatility: Mapped[float]
    games: Mapped[int]
    score: Mapped[float]


class _Record:
    """What a pair's matches up to the last closed period say, for as many columns.

    `matches` is the plain number; the others fade as `arena.payoff` has it. The players of a pair are those of its
    matches, so that no constraint looks them up for every record that a period writes. PostgreSQL keeps half of each
    page free: a record that changes stays on its page, and its indices as they are.
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
