"""Tables of learners and players, and of what is decided about them."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id


class Learner(Base):
    """A trained lineage and its latest metrics. `owner` is the worker token that founded it.

    `rules` are numbers of its role that are others than usual. `points` numbers what it reported of itself; `verdicts`
    is what its trainer says of its health, null where it says nothing. `sides` are the names of the two sides of its
    environment where they are unlike.
    """

    __tablename__ = "learners"
    __table_args__ = (UniqueConstraint("environment", "name"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    environment: Mapped[str]
    name: Mapped[str]
    role: Mapped[str]
    signature: Mapped[str]
    max_decisions: Mapped[int | None]
    sides: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    step: Mapped[int | None]
    metrics: Mapped[dict[str, Any]]
    metrics_at: Mapped[datetime | None]
    verdicts: Mapped[list[dict[str, Any]] | None]
    points: Mapped[int] = mapped_column(server_default="0")
    rules: Mapped[dict[str, Any] | None]
    owner: Mapped[str | None]
    created_at: Mapped[datetime]


class Player(Base):
    """Anything rated, with the rating it starts from.

    A snapshot starts where its learner stood after the period `start_period_id`, null before the first that rated it,
    with a deviation of at least `start_deviation_floor`. `owner` is the worker token that entered an external player.
    """

    __tablename__ = "players"
    __table_args__ = (
        UniqueConstraint("environment", "signature", "name"),
        UniqueConstraint("environment", "call_sign"),
        UniqueConstraint("learner_id", "checkpoint", "step"),
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    kind: Mapped[str]
    environment: Mapped[str]
    signature: Mapped[str]
    name: Mapped[str]
    call_sign: Mapped[str | None]
    role: Mapped[str | None]
    standing: Mapped[str | None]
    checkpoint: Mapped[str | None]
    learner_id: Mapped[int | None] = mapped_column(ForeignKey("learners.id"))
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("players.id"))
    step: Mapped[int | None]
    card: Mapped[dict[str, Any]]
    start_rating: Mapped[float]
    start_deviation: Mapped[float]
    start_volatility: Mapped[float]
    start_period_id: Mapped[int | None]
    start_deviation_floor: Mapped[float | None]
    owner: Mapped[str | None]
    created_at: Mapped[datetime]


Index("uq_players_learner", Player.learner_id, unique=True, sqlite_where=Player.kind == "learner",
      postgresql_where=Player.kind == "learner")  # fmt: skip


class SnapshotDecision(Base):
    """That a learner was to leave a snapshot after the one of `since_step`, when it had come to `step`.

    With `reset` it was to begin anew then, with the weights of the checkpoint `start`, or its own first ones where that
    is null. What the decision rests on is in its event. `player_id` is the snapshot, null until it is published.
    """

    __tablename__ = "snapshot_decisions"

    learner_id: Mapped[int] = mapped_column(ForeignKey("learners.id"), primary_key=True)
    since_step: Mapped[int] = mapped_column(primary_key=True)
    step: Mapped[int]
    reset: Mapped[bool]
    start: Mapped[str | None]
    event_id: Mapped[int] = mapped_column(ForeignKey("events.id"))
    player_id: Mapped[int | None] = mapped_column(ForeignKey("players.id"))


class Champion(Base):
    """Who holds an environment's alias `champion` from when on; nobody where there is no player. The last row holds."""

    __tablename__ = "champions"

    environment: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    player_id: Mapped[int | None] = mapped_column(ForeignKey("players.id"))
    actor: Mapped[str]
    reason: Mapped[str]
    since: Mapped[datetime]


class Gate(Base):
    """A sequential test of two frozen players. Its leases name it; `verdict` is empty unless it has one."""

    __tablename__ = "gates"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    environment: Mapped[str]
    candidate_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    champion_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    elo0: Mapped[float]
    elo1: Mapped[float]
    alpha: Mapped[float]
    beta: Mapped[float]
    least_games: Mapped[int]
    state: Mapped[str]
    actor: Mapped[str]
    reason: Mapped[str]
    opened_at: Mapped[datetime]
    verdict: Mapped[dict[str, Any]]
    closed_reason: Mapped[str | None]
    closed_at: Mapped[datetime | None]


_TESTED = Gate.candidate_id, Gate.champion_id, Gate.elo0, Gate.elo1, Gate.alpha, Gate.beta, Gate.least_games
Index("uq_gates_open", *_TESTED, unique=True, sqlite_where=Gate.state == "open",
      postgresql_where=Gate.state == "open")  # fmt: skip
