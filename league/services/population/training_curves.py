"""Training curves: one point per progress report, thinned with age.

Points are numbered in order of arrival. Of the newest `DENSE` points all are stored, of twice as many every second one,
of four times as many every fourth one, and so on. Of N points, DENSE / 2 (log2(N / DENSE) + 2) remain, a few thousand
after a year, and each new point deletes at most one old point. Metrics of single opponents are not stored, because
opponents change all the time; their latest values are in the learner's progress.
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

DENSE = 720
"""Number of newest points that are all stored: one hour at a report every five seconds. Even."""

OF_OPPONENTS = ("win_rate/", "matches/")
"""Prefixes of metrics of one opponent, followed by its name."""

# Core, not ORM: object mapping costs more than these statements
_POINTS = Base.metadata.tables[MetricPoint.__tablename__]
_DELETE_POINT = delete(_POINTS).where(
    _POINTS.c.learner_id == bindparam("learner"), _POINTS.c.number == bindparam("old")
)

_LIMIT = 1e30
_DIGITS = 6
"""Significant digits of a stored value."""


def add(
    session: Session, learner_id: int, number: int, step: int, metrics: Mapping[str, float | None], now: datetime
) -> None:
    """Add a point to a learner's curves and delete the old point that it displaces; a known step adds nothing.

    Args:
        session: A write transaction.
        learner_id: The learner.
        number: Number of the point, from 1.
        step: Step of the learner.
        metrics: Finite values by name; None for unknown ones.
        now: Current time.
    """
    stored = {name: _storable(value) for name, value in sorted(metrics.items()) if not name.startswith(OF_OPPONENTS)}
    if not stored:
        return
    point = {"learner_id": learner_id, "number": number, "step": step, "metrics": stored, "reported_at": now}
    connection = session.connection()
    connection.execute(_insertion(connection.dialect.name), point)
    if (old := displaced_by(number)) > 0:
        connection.execute(_DELETE_POINT, {"learner": learner_id, "old": old})


def displaced_by(number: int) -> int:
    """Return the number of the point that a new one displaces; 0 or less if there is none.

        number - DENSE * (greatest power of two that divides number)

    Args:
        number: Number of the new point, at least 1.
    """
    # number & -number is the lowest set bit, that is the greatest power of two that divides it.
    return number - DENSE * (number & -number)


def read(
    session: Session, learner_id: int, *, after: int = 0, names: Sequence[str] | None = None, most: int | None = None
) -> wire.TrainingCurves:
    """Read a learner's curves in order of steps.

    Args:
        session: A transaction.
        learner_id: The learner.
        after: Number of a point; only later ones are read.
        names: Names of the metrics to return; None for all.
        most: Maximum number of points: the last one of each of `most` equal intervals of steps.

    Raises:
        UnknownLearnerError: There is no such learner.
    """
    learners.require(session, learner_id)
    own = MetricPoint.learner_id == learner_id
    query = select(MetricPoint.number, MetricPoint.step).where(own, MetricPoint.number > after)
    found = session.execute(query.order_by(MetricPoint.step)).all()
    chosen = found if most is None else [found[index] for index in downsample([point.step for point in found], most)]
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


def downsample(steps: Sequence[int], most: int) -> list[int]:
    """Return the indices of at most `most` of N points: the last one of each of `most` equal intervals of steps.

    Args:
        steps: (N,) steps, ascending.
        most: At least 1.
    """
    if len(steps) <= most:
        return list(range(len(steps)))
    whole = steps[-1] - steps[0] + 1
    span = [(step - steps[0]) * most // whole for step in steps]  # Python integers: the product may exceed 64 bits
    return [index for index, (one, following) in enumerate(pairwise(span)) if one != following] + [len(steps) - 1]


@cache
def _insertion(dialect: str) -> Insert:
    return insert_of(dialect, _POINTS).on_conflict_do_nothing()


def _storable(value: float | None) -> float | None:
    """Round a value to the stored digits; values of 1e30 and more return None."""
    return float(f"{value:.{_DIGITS}g}") if value is not None and abs(value) < _LIMIT else None
