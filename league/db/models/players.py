"""Tables of players and champions."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id
from league.wire import Kind, Role, Standing


class Player(Base):
    """A rated player, with its initial rating.

    A snapshot starts with its learner's rating after the period `start_period_id`, null before the first one that rated
    it, and a deviation of at least `start_deviation_floor`. `owner` is the worker token that entered an external
    player. `run_id` is the run that published a snapshot, null if unknown.
    """

    __tablename__ = "players"
    __table_args__ = (
        UniqueConstraint("environment", "signature", "name"),
        UniqueConstraint("environment", "call_sign"),
        UniqueConstraint("learner_id", "checkpoint", "step"),
        CheckConstraint("(standing IS NOT NULL) = (kind IN ('snapshot', 'external'))", name="standing_of_kind"),
        CheckConstraint("kind NOT IN ('snapshot', 'learner') OR learner_id IS NOT NULL", name="learner"),
        CheckConstraint("kind <> 'snapshot' OR checkpoint IS NOT NULL", name="checkpoint"),
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    kind: Mapped[Kind]
    environment: Mapped[str] = mapped_column(ForeignKey("environments.name"))
    signature: Mapped[str]
    name: Mapped[str]
    call_sign: Mapped[str | None]
    role: Mapped[Role | None]
    standing: Mapped[Standing | None]
    checkpoint: Mapped[str | None]
    learner_id: Mapped[int | None] = mapped_column(ForeignKey("learners.id"))
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("players.id"))
    step: Mapped[int | None]
    run_id: Mapped[int | None] = mapped_column(index=True)
    card: Mapped[dict[str, Any]]
    start_rating: Mapped[float]
    start_deviation: Mapped[float]
    start_volatility: Mapped[float]
    start_period_id: Mapped[int | None]
    start_deviation_floor: Mapped[float | None]
    owner: Mapped[str | None]
    note: Mapped[str | None]
    created_at: Mapped[datetime]


# Partial unique index: a learner has many snapshots, but one player that stands for its current weights.
Index("uq_players_learner", Player.learner_id, unique=True, sqlite_where=Player.kind == "learner",
      postgresql_where=Player.kind == "learner")  # fmt: skip


class PlayerTag(Base):
    """A tag of a player, chosen by people."""

    __tablename__ = "player_tags"

    player_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True, autoincrement=False)
    tag: Mapped[str] = mapped_column(primary_key=True, index=True)


class Champion(Base):
    """A change of an environment's alias `champion`, to no player if `player_id` is null. The last row is current."""

    __tablename__ = "champions"

    environment: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    player_id: Mapped[int | None] = mapped_column(ForeignKey("players.id"))
    actor: Mapped[str]
    reason: Mapped[str]
    since: Mapped[datetime]
