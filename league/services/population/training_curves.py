"""Training curves: a point for every report of progress, thinned out with age.

Points are numbered as they come. Of the last `KEPT` every one stays, of twice as many every second, and so on: of N
points KEPT / 2 (log2(N / KEPT) + 2) are left, a few thousand after a year, and each new one costs at most one old one.
What is told of single opponents is not kept: their names change all the time, and the last of it is with the learner.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import pairwise

from sqlalchemy import Insert, bindparam, delete, select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Base, MetricPoint
from league.db.upsert import insert_of
from league.services.population import learners

KEPT = 720
"""How many of the newest points all stay: an hour of reports five seconds apart. Even."""

OF_OPPONENTS = ("win_rate/", "matches/")
"""Followed by an opponent's name."""

# without the object mapper, which costs more than these statements
_POINTS = Base.metadata.tables[MetricPoint.__tablename__]
_FORGET = delete(_POINTS).where(_POINTS.c.learner_id == bindparam("learner"), _POINTS.c.number == bindparam("old"))

_LIMIT = 1e30
_DIGITS = 6
"""Significant ones of a value that is stored."""


def add(
    session: Session, learner_id: int, number: int, step: int, metrics: Mapping[str, float | None], now: datetime
) -> None:
    """Add a learner's point, and take away the old one whose time has come; a step that is known keeps its point.

    Args:
        session: A write transaction.
        learner_id: Whose.
        number: Of the point, counted from 1.
        step: How far the learner has come.
        metrics: Finite values by name; None where there is nothing to say.
        now: The time.
    """
    kept = {name: _storable(value) for name, value in sorted(metrics.items()) if not name.startswith(OF_OPPONENTS)}
    if not kept:
        return
    point = {"learner_id": learner_id, "number": number, "step": step, "metrics": kept, "reported_at": now}
    connection = session.connection()
    connection.execute(_insertion(connection.dialect.name), point)
    if (old := outlived(number)) > 0:
        connection.execute(_FORGET, {"learner": learner_id, "old": old})


def outlived(number: int) -> int:
    """Return the number of the point that goes when another comes; 0 or less where none does.

        number - KEPT * (greatest power of two that divides number)

    Args:
        number: Of the point that comes, at least 1.
    """
    return number - KEPT * (number & -number)


def read(
    session: Session, learner_id: int, *, after: int = 0, names: Sequence[str] | None = None, most: int | None = None
) -> wire.TrainingCurves:
    """Read a learner's curves, in order of steps.

    Args:
        session: A transaction.
        learner_id: Whose.
        after: Number of a point; only those that came later are read.
        names: Of the metrics that are wanted; None for all.
        most: Most points: where there are more, the last of each of so many equal spans of steps.

    Raises:
        UnknownLearnerError: There is no such learner.
    """
    learners.require(session, learner_id)
    own = MetricPoint.learner_id == learner_id
    query = select(MetricPoint.number, MetricPoint.step).where(own, MetricPoint.number > after)
    found = session.execute(query.order_by(MetricPoint.step)).all()
    chosen = found if most is None else [found[place] for place in spread([point.step for point in found], most)]
    numbers = MetricPoint.number.in_([point.number for point in chosen])
    points = session.scalars(select(MetricPoint).where(own, numbers).order_by(MetricPoint.step)).all()
    wanted = {name for point in points for name in point.metrics if names is None or name in names}
    return wire.TrainingCurves(
        learner_id=learner_id,
        steps=[point.step for point in points],
        reported_at=[point.reported_at for point in points],
        metrics={name: [point.metrics.get(name) for point in points] for name in sorted(wanted)},
        last=max((point.number for point in found), default=after),
    )


def spread(steps: Sequence[int], most: int) -> list[int]:
    """Return the places of at most so many of N points: the last of each of `most` equal spans of steps.

    Args:
        steps: N steps in order.
        most: At least 1.
    """
    if len(steps) <= most:
        return list(range(len(steps)))
    whole = steps[-1] - steps[0] + 1
    span = [(step - steps[0]) * most // whole for step in steps]  # beyond 64 bits where steps are many
    return [place for place, (one, following) in enumerate(pairwise(span)) if one != following] + [len(steps) - 1]


@cache
def _insertion(dialect: str) -> Insert:
    return insert_of(dialect, _POINTS).on_conflict_do_nothing()


def _storable(value: float | None) -> float | None:
    """Round a value to the digits that a curve shows; one that is too large to be drawn is left out."""
    return float(f"{value:.{_DIGITS}g}") if value is not None and abs(value) < _LIMIT else None
