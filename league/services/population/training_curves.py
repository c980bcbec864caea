"""Training curves: a point for every report of progress, thinned out with age.

Points are numbered as they come. Of the last `KEPT` every one stays, of twice as many every second, and so on: of N
points KEPT / 2 (log2(N / KEPT) + 2) are left, a few thousand after a year, and each new one costs at most one old one.
What is told of single opponents is not kept: their names change all the time, and the last of it is with the learner.

A learner's points have at most `behaviours.SETS_MAX` different sets of names. Of each the last point stays, whatever
its age: no set is left without points, and what points there are tells how many sets a learner has ever had.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import bindparam, delete, insert, select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Base, MeasureSet, MetricPoint
from league.services.matches import behaviours
from league.services.population import learners

KEPT = 720
"""How many of the newest points all stay: an hour of reports five seconds apart. Even."""

OF_OPPONENTS = ("win_rate/", "matches/")
"""Followed by an opponent's name."""

# without the object mapper, which costs more than these statements
_POINTS = Base.metadata.tables[MetricPoint.__tablename__]
_OLDER = _POINTS.alias()
_OWN = _POINTS.c.learner_id == bindparam("learner")
_OWN_NEWEST_FIRST = select(_POINTS.c.measure_set_id).where(_OWN).order_by(_POINTS.c.number.desc()).limit(1)
_KNOWN = select(
    select(_POINTS.c.number).where(_OWN, _POINTS.c.step == bindparam("at_step")).exists(),
    _OWN_NEWEST_FIRST.where(_POINTS.c.measure_set_id == bindparam("set_id")).scalar_subquery().is_not(None),
)
_OWN_SETS = select(_POINTS.c.measure_set_id).where(_OWN).distinct()
_FORGET = delete(_POINTS).where(
    _OWN,
    _POINTS.c.number == bindparam("old"),
    select(_OLDER.c.number)
    .where(
        _OLDER.c.learner_id == _POINTS.c.learner_id,
        _OLDER.c.measure_set_id == _POINTS.c.measure_set_id,
        _OLDER.c.number != _POINTS.c.number,
    )
    .correlate(_POINTS)
    .exists(),
)
"""Takes a learner's point away, unless it is the last one of its set."""

_LIMIT = 1e30
_DIGITS = 6
"""Significant ones of a value that is shown; float32 has a good seven."""


def add(
    session: Session, learner_id: int, number: int, step: int, metrics: Mapping[str, float | None], now: datetime
) -> None:
    """Add a learner's point, and take away the old one whose time has come; a step that is known keeps its point.

    Where the names are a set too many, those are kept that the learner's last point has.

    Args:
        session: A write transaction.
        learner_id: Whose.
        number: Of the point, counted from 1.
        step: How far the learner has come.
        metrics: Finite values by name; None where there is nothing to say.
        now: The time.
    """
    names = sorted(name for name in metrics if not name.startswith(OF_OPPONENTS))
    if not names:
        return
    set_id = behaviours.set_id(names)
    connection, own = session.connection(), {"learner": learner_id}
    step_is_known, set_is_known = connection.execute(_KNOWN, own | {"at_step": step, "set_id": set_id}).one()
    if not step_is_known:
        kept: Sequence[str] = names
        if not set_is_known:
            set_id, kept = _kept_set(session, own, names)
        readings = behaviours.pack_values([_storable(metrics.get(name)) for name in kept])
        point = {"learner_id": learner_id, "number": number, "step": step, "measure_set_id": set_id}
        connection.execute(insert(_POINTS), {**point, "readings": readings, "reported_at": now})
    if (old := outlived(number)) > 0:
        connection.execute(_FORGET, own | {"old": old})


def outlived(number: int) -> int:
    """Return the number of the point that goes when another comes; 0 or less where none does.

        number - KEPT * (greatest power of two that divides number)

    Args:
        number: Of the point that comes, at least 1.
    """
    return number - KEPT * (number & -number)


def read(
    session: Session, learner_id: int, *, after: int = 0, names: Sequence[str] | None = None, most: int | None = None
) -> wire.LearnerMetrics:
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
    chosen = MetricPoint.learner_id == learner_id, MetricPoint.number > after
    query = select(MetricPoint).where(*chosen).order_by(MetricPoint.step)
    points = session.scalars(query).all()
    last = max((point.number for point in points), default=after)
    if most is not None:
        points = [points[place] for place in spread([point.step for point in points], most)]
    return wire.LearnerMetrics(
        learner_id=learner_id,
        steps=[point.step for point in points],
        reported_at=[point.reported_at for point in points],
        metrics={name: _told(column) for name, column in _columns(session, points, names).items()},
        last=last,
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


def _kept_set(session: Session, own: Mapping[str, int], names: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Store a set of names that is new to a learner; where it is one too many, return that of the last point."""
    if len(session.connection().execute(_OWN_SETS, own).all()) < behaviours.SETS_MAX:
        return behaviours.keep_set(session, names), names
    last = session.get_one(MeasureSet, session.connection().execute(_OWN_NEWEST_FIRST, own).scalar_one())
    return last.id, last.measures


def _storable(value: float | None) -> float | None:
    """Leave out what float32 cannot hold: it has no place in a curve."""
    return value if value is not None and abs(value) < _LIMIT else None


def _columns(
    session: Session, points: Sequence[MetricPoint], names: Sequence[str] | None
) -> dict[str, NDArray[np.float64]]:
    """Return (N,) values by name of N points, NaN where a point has none; only names that some point has."""
    columns: dict[str, NDArray[np.float64]] = {}
    used = {point.measure_set_id for point in points}
    for measure_set in session.scalars(select(MeasureSet).where(MeasureSet.id.in_(used)).order_by(MeasureSet.id)):
        rows = [row for row, point in enumerate(points) if point.measure_set_id == measure_set.id]
        values = behaviours.unpack([points[row].readings for row in rows])
        for place, name in enumerate(measure_set.measures):
            if names is None or name in names:
                columns.setdefault(name, np.full(len(points), np.nan))[rows] = values[:, place]
    return dict(sorted(columns.items()))


def _told(column: NDArray[np.float64]) -> list[float | None]:
    return [float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None for value in column]
