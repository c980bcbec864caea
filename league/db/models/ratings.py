"""Tables of rating periods, ratings and leader leases."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, ForeignKey, Index, UniqueConstraint, false, func, select
from sqlalchemy.orm import Mapped, aliased, mapped_column

from league.db.models.base import Base, Id
from league.wire import Side


class Period(Base):
    """A closed rating period, with the rating settings it was closed under.

    A rebuild under other settings adds a new `version` of all periods, with numbers that continue from the last; the
    newest version is current. `refitted` is true if the whole history was fitted at the period's end.
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
        """Return the condition that a period belongs to the newest version of its environment."""
        other = aliased(cls)
        # Correlated by the environment, so that one query may cover several environments with different versions.
        newest = select(func.max(other.version)).where(other.environment == cls.environment)
        return cls.version == newest.correlate(cls).scalar_subquery()


class Rating(Base):
    """A player's rating after a period that changed it, overall or on one side; `games` and `score` count all matches.

    `side` is null for the overall rating. Only asymmetric games have ratings for each side. `standard_error`
    is null before the player's first fit of the whole history, and for learners and baselines.
    """

    __tablename__ = "ratings"

    # A primary key has no nullable column, and NULLs are distinct in a unique constraint: hence the two indexes below.
    # Measured on PostgreSQL: 19 µs of the server's CPU a row, 13 µs with the primary key (player_id, period_id) alone.
    id: Mapped[int] = mapped_column(Id, primary_key=True)
    player_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    side: Mapped[Side | None]
    period_id: Mapped[int] = mapped_column(ForeignKey("periods.id"), index=True)
    rating: Mapped[float]
    deviation: Mapped[float]
    volatility: Mapped[float]
    games: Mapped[int]
    score: Mapped[float]
    standard_error: Mapped[float | None]

    @property
    def uncertainty(self) -> float:
        """Standard error, or the deviation before the first fit."""
        return self.deviation if self.standard_error is None else self.standard_error


Index("uq_ratings_overall", Rating.player_id, Rating.period_id, unique=True, sqlite_where=Rating.side.is_(None),
      postgresql_where=Rating.side.is_(None))  # fmt: skip
Index("uq_ratings_side", Rating.player_id, Rating.side, Rating.period_id, unique=True,
      sqlite_where=Rating.side.is_not(None), postgresql_where=Rating.side.is_not(None))  # fmt: skip


class PairModelFit(Base):
    """Newest fit of an environment's pair model, which predicts scores; see `arena.ratings.pair_model`.

    `players` holds int64 ids and `parameters` float64 rows of (strength, u, v, ...). `effects` holds a row for each
    pair that has played: int32 indices of its players, then float64 mean and variance of its effect on the log-odds of
    the first one. All are little-endian. `matches` is the number of matches of all periods at the time of the fit.
    `report` compares predictions with results.
    """

    __tablename__ = "pair_models"

    environment: Mapped[str] = mapped_column(primary_key=True)
    period_id: Mapped[int | None] = mapped_column(ForeignKey("periods.id"))
    matches: Mapped[int]
    components: Mapped[int]
    players: Mapped[bytes]
    parameters: Mapped[bytes]
    effect_variance: Mapped[float]
    effects: Mapped[bytes]
    report: Mapped[dict[str, Any]]
    fitted_at: Mapped[datetime]


class LeaderLease(Base):
    """The process that is elected leader of a periodic task, and the end of its term."""

    __tablename__ = "leader_leases"

    task: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    until: Mapped[datetime]
