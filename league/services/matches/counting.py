"""Conditions for matches that count and for matches that are rated."""

from sqlalchemy import ColumnElement, and_, exists, select
from sqlalchemy.orm import Session

from league.db.models import Match, Quarantine

GATE = "gate"
"""Kind of gate matches. They stop early on a favourable result (optional stopping), so they must not be rated."""


def excluded() -> ColumnElement[bool]:
    """Return the condition for excluded matches: their worker was quarantined when it reported them."""
    # Reinstating sets `until`, so results between both times stay excluded. `since` = `until` excludes none.
    ended = and_(Quarantine.until.is_not(None), Match.reported_at >= Quarantine.until)
    within = Quarantine.worker_id == Match.worker_id, Match.reported_at >= Quarantine.since, ~ended
    return exists().where(*within).correlate(Match)


def counted(session: Session) -> list[ColumnElement[bool]]:
    """Return the conditions for matches that count; empty if no worker was ever quarantined."""
    # Leagues without a quarantine, the usual case, pay one look-up instead of a subquery per match.
    any_at_all = session.scalar(select(Quarantine.id).limit(1))
    return [] if any_at_all is None else [~excluded()]


def rated(session: Session) -> list[ColumnElement[bool]]:
    """Return the conditions for matches that enter ratings and payoffs."""
    return [Match.kind != GATE, *counted(session)]
