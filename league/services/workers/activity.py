"""Activity of workers: recent matches, and open leases."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from league.db.models import Lease, Match

SPAN = timedelta(minutes=10)
"""What a rate is the mean of; less where more came in meanwhile than are looked at."""

MATCHES_MAX = 20_000
"""How many ids of matches are looked at; some are of none, such as of a report that came twice."""


@dataclass(frozen=True)
class Activity:
    """What a worker does.

    Attributes:
        matches_per_s: Matches that it reported of late, a second.
        open_leases: Leases that it may still play.
    """

    matches_per_s: float = 0.0
    open_leases: int = 0


def of_workers(session: Session, now: datetime) -> Mapping[str, Activity]:
    """Return what each worker does, by id; those that do nothing are left out."""
    counts, span_s = _recent(session, now)
    open_leases = select(Lease.worker_id, func.count()).where(Lease.state == "open", Lease.expires_at > now)
    leases = dict(iter(session.execute(open_leases.group_by(Lease.worker_id))))
    return {each: Activity(counts.get(each, 0) / span_s, leases.get(each, 0)) for each in {*counts, *leases}}


def _recent(session: Session, now: datetime) -> tuple[Mapping[str, int], float]:
    """Return how many matches each worker reported within the span, and how long that is in seconds."""
    newest = session.scalar(select(func.max(Match.id))) or 0
    before, began = newest - MATCHES_MAX, now - SPAN
    if before > 0:  # what came earlier is left out, however many of the ids since then there are
        first = session.scalar(select(Match.reported_at).where(Match.id > before).order_by(Match.id).limit(1))
        began = max(began, first or began)
    recent = Match.id > before, Match.reported_at >= began
    counts = dict(iter(session.execute(select(Match.worker_id, func.count()).where(*recent).group_by(Match.worker_id))))
    return counts, max(1.0, (now - began).total_seconds())
