"""Learners, their training curves, and decisions that they are to leave a snapshot."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id
from league.wire import Role


class Learner(Base):
    """A trained lineage. `owner` is the worker token that founded it.

    `rules` are numbers of its role that are others than usual.
    """

    __tablename__ = "learners"
    __table_args__ = (UniqueConstraint("environment", "name"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    environment: Mapped[str] = mapped_column(ForeignKey("environments.name"))
    name: Mapped[str]
    role: Mapped[Role]
    signature: Mapped[str]
    rules: Mapped[dict[str, Any] | None]
    owner: Mapped[str | None]
    created_at: Mapped[datetime]


class LearnerProgress(Base):
    """What a learner last reported: apart from its identity, since every heartbeat rewrites it.

    `points` counts its reports of new steps. `verdicts` are its trainer's findings on its health, null without any.
    """

    __tablename__ = "learner_progress"

    learner_id: Mapped[int] = mapped_column(ForeignKey("learners.id"), primary_key=True, autoincrement=False)
    step: Mapped[int | None]
    metrics: Mapped[dict[str, Any]] = mapped_column(default=dict)
    metrics_at: Mapped[datetime | None]
    verdicts: Mapped[list[dict[str, Any]] | None]
    points: Mapped[int] = mapped_column(default=0)


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
    """What a learner reported of itself at a step.

    `number` counts a learner's points as they came. The older, the fewer are kept: see
    `league.services.population.training_curves`.
    """

    __tablename__ = "metric_points"
    __table_args__ = (UniqueConstraint("learner_id", "step"),)

    learner_id: Mapped[int] = mapped_column(ForeignKey("learners.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    step: Mapped[int]
    metrics: Mapped[dict[str, Any]]
    reported_at: Mapped[datetime]
