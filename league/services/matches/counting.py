"""Conditions under which a match counts, and under which it is rated."""

from sqlalchemy import ColumnElement, and_, exists, select
from sqlalchemy.orm import Session

from league.db.models import Match, Quarantine

GATE = "gate"
"""Kind of the matches that are played for a gate. They stop when they look good, so that they must not be rated."""


def excluded() -> ColumnElement[bool]:
    """Select the matches that do not count: those that a worker reported while it was not trusted."""
    ended = and_(Quarantine.until.is_not(None), Match.reported_at >= Quarantine.until)
    within = Quarantine.worker_id == Match.worker_id, Match.reported_at >= Quarantine.since, ~ended
    return exists().where(*within).correlate(Match)


def counted(session: Session) -> list[ColumnElement[bool]]:
    """Return the conditions under which matches count; there are none while nobody was ever quarantined."""
    any_at_all = session.scalar(select(Quarantine.id).limit(1))
    return [] if any_at_all is None else [~excluded()]


def rated(session: Session) -> list[ColumnElement[bool]]:
    """Return the conditions under which matches make ratings and payoffs."""
    return [Match.kind != GATE, *counted(session)]
