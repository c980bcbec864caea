"""Learners, their training curves, and decisions that they are to leave a snapshot."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, UniqueConstraint
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


class MetricPoint(Base):
    """What a learner reported of itself at a step: float32 values, little-endian, NaN unknown.

    `number` counts a learner's points as they came. The older, the fewer are kept: see
    `league.services.population.training_curves`.
    """

    __tablename__ = "metric_points"
    __table_args__ = (UniqueConstraint("learner_id", "step"),)

    learner_id: Mapped[int] = mapped_column(ForeignKey("learners.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    step: Mapped[int]
    measure_set_id: Mapped[str] = mapped_column(ForeignKey("measure_sets.id"))
    readings: Mapped[bytes]
    reported_at: Mapped[datetime]
