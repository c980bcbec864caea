"""Activity of workers: recent match rate and open leases."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from league.db.models import Lease, Match

SPAN = timedelta(minutes=10)
"""Averaging window of match rates; shorter if it has more than `MATCHES_MAX` match ids."""

MATCHES_MAX = 20_000
"""Maximum number of match ids to read. Ids have gaps: a duplicate report consumes one."""


@dataclass(frozen=True)
class Activity:
    """Recent activity of a worker.

    Attributes:
        matches_per_s: Reported matches per second.
        open_leases: Open leases that have not expired.
    """

    matches_per_s: float = 0.0
    open_leases: int = 0


def of_workers(session: Session, now: datetime) -> Mapping[str, Activity]:
    """Return the activity of each active worker, by id."""
    counts, span_s = _recent(session, now)
    open_leases = select(Lease.worker_id, func.count()).where(Lease.state == "open", Lease.expires_at > now)
    leases = dict(iter(session.execute(open_leases.group_by(Lease.worker_id))))
    return {each: Activity(counts.get(each, 0) / span_s, leases.get(each, 0)) for each in {*counts, *leases}}


def _recent(session: Session, now: datetime) -> tuple[Mapping[str, int], float]:
    """Return the number of recent matches of each worker, and the length of the window in seconds."""
    newest = session.scalar(select(func.max(Match.id))) or 0
    before, began = newest - MATCHES_MAX, now - SPAN
    if before > 0:  # bounds the rows read, even if some of these ids have no match
        first = session.scalar(select(Match.reported_at).where(Match.id > before).order_by(Match.id).limit(1))
        began = max(began, first or began)
    recent = Match.id > before, Match.reported_at >= began
    counts = dict(iter(session.execute(select(Match.worker_id, func.count()).where(*recent).group_by(Match.worker_id))))
    return counts, max(1.0, (now - began).total_seconds())
