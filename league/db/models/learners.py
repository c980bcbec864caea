"""Tables of learners, their runs, training curves and snapshot decisions."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from league.db.models.base import Base, Id
from league.wire import Role


class Learner(Base):
    """A trained lineage. `owner` is the worker token that registered it.

    `rules` are the settings of its role that differ from the defaults.
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


class Run(Base):
    """One training process of a learner, with its settings and its origin. `key` is chosen by the process."""

    __tablename__ = "runs"
    __table_args__ = (UniqueConstraint("learner_id", "key"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    learner_id: Mapped[int] = mapped_column(ForeignKey("learners.id"))
    key: Mapped[str]
    seed: Mapped[int | None]
    step: Mapped[int]
    settings: Mapped[dict[str, Any]]
    origin: Mapped[dict[str, Any]]
    started_at: Mapped[datetime]


class LearnerProgress(Base):
    """A learner's latest report, separate from `learners` because every heartbeat rewrites it.

    `points` counts its reports of new steps. `verdicts` are its trainer's findings, null if unknown.
    """

    __tablename__ = "learner_progress"

    learner_id: Mapped[int] = mapped_column(ForeignKey("learners.id"), primary_key=True, autoincrement=False)
    step: Mapped[int | None]
    metrics: Mapped[dict[str, Any]] = mapped_column(default=dict)
    metrics_at: Mapped[datetime | None]
    verdicts: Mapped[list[dict[str, Any]] | None]
    points: Mapped[int] = mapped_column(default=0)


class SnapshotDecision(Base):
    """Decision at `step` that a learner publishes a snapshot after the one of `since_step`.

    With `reset` the learner is then reset, to the weights of the checkpoint `start` or to its initial ones if that is
    null. The evidence is in the decision's event. `player_id` is the snapshot, null until it is published.
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
    """A learner's metrics at a step.

    `number` counts a learner's points in order of arrival. Old points are thinned: see
    `league.services.population.training_curves`.
    """

    __tablename__ = "metric_points"
    __table_args__ = (UniqueConstraint("learner_id", "step"),)

    learner_id: Mapped[int] = mapped_column(ForeignKey("learners.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    step: Mapped[int]
    metrics: Mapped[dict[str, Any]]
    reported_at: Mapped[datetime]
