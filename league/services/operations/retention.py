"""Retention: delete leases without matches, refused results and old opponent distributions.

Matches, ratings, players, periods, the audit log and leases with matches are never deleted. An old distribution retains
its branches and rules, so that `GET /leases/{id}` still explains the draw. Its opponents and their probabilities, which
take most of the space, are deleted.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, String, cast, delete, exists, func, select, update
from sqlalchemy.orm import InstrumentedAttribute

from league.db.engine import Database
from league.db.models import Draw, Lease, Match, Refusal

LEASES_AT_ONCE = 5000
DRAWS_AT_ONCE = 50
"""Rows scanned per transaction, to keep write transactions short."""


@dataclass(frozen=True)
class PrunedCounts:
    """Numbers of outdated rows.

    Attributes:
        leases: Leases that ended without a match.
        refusals: Refused results.
        draws: Distributions of leases that have all ended.
        draw_bytes: Approximate size of these distributions in bytes.
    """

    leases: int = 0
    refusals: int = 0
    draws: int = 0
    draw_bytes: int = 0

    def __add__(self, other: "PrunedCounts") -> "PrunedCounts":
        return PrunedCounts(
            self.leases + other.leases,
            self.refusals + other.refusals,
            self.draws + other.draws,
            self.draw_bytes + other.draw_bytes,
        )


def survey(database: Database, before: datetime) -> PrunedCounts:
    """Count the rows that `prune` would delete."""
    with database.read() as session:
        size = func.sum(func.length(cast(Draw.distribution, String)))
        draws, draw_bytes = session.execute(select(func.count(), size).where(_prunable(before), ~_in_use(before))).one()
        return PrunedCounts(
            leases=session.scalar(select(func.count()).where(_unplayed(before))) or 0,
            refusals=session.scalar(select(func.count()).where(Refusal.refused_at < before)) or 0,
            draws=draws,
            draw_bytes=draw_bytes or 0,
        )


def prune(database: Database, before: datetime, now: datetime) -> Iterator[PrunedCounts]:
    """Delete outdated rows; servers may be running.

    Args:
        database: Database of the league.
        before: Delete leases that ended before this time, and rows of that age; their grace period must be over.
        now: Time recorded in pruned distributions.

    Yields:
        The rows deleted by each transaction. Between transactions other writers proceed, and the caller can stop.
    """
    yield from _delete_leases(database, before)
    yield from _delete_refusals(database, before)
    yield from _prune_opponents(database, before, now)


def _delete_leases(database: Database, before: datetime) -> Iterator[PrunedCounts]:
    for window in _windows(database, Lease.id, Lease.granted_at < before, LEASES_AT_ONCE):
        with database.write() as session:
            deleted = session.scalars(delete(Lease).where(window, _unplayed(before)).returning(Lease.id)).all()
        yield PrunedCounts(leases=len(deleted))


def _delete_refusals(database: Database, before: datetime) -> Iterator[PrunedCounts]:
    with database.read() as session:
        workers = session.scalars(select(Refusal.worker_id).where(Refusal.refused_at < before).distinct()).all()
    for worker_id in workers:
        with database.write() as session:
            old = delete(Refusal).where(Refusal.worker_id == worker_id, Refusal.refused_at < before)
            deleted = session.scalars(old.returning(Refusal.lease_id)).all()
        yield PrunedCounts(refusals=len(deleted))


def _prune_opponents(database: Database, before: datetime, now: datetime) -> Iterator[PrunedCounts]:
    for window in _windows(database, Draw.id, _prunable(before), DRAWS_AT_ONCE):
        freed = []
        with database.write() as session:
            # Locked in order of ids, so that two processes that prune cannot deadlock.
            old = select(Draw.id).where(window, _prunable(before)).order_by(Draw.id).with_for_update()
            locked = session.scalars(old).all()  # a writer of new leases has committed or waits for these row locks
            chosen = select(Draw.id, Draw.distribution).where(Draw.id.in_(locked), ~_in_use(before))
            for draw_id, content in session.execute(chosen).all():
                pruned = _without_opponents(content)
                session.execute(update(Draw).where(Draw.id == draw_id).values(distribution=pruned, pruned_at=now))
                freed.append(len(json.dumps(content)) - len(json.dumps(pruned)))
        yield PrunedCounts(draws=len(freed), draw_bytes=sum(freed))


def _windows(
    database: Database, key: InstrumentedAttribute[str], condition: ColumnElement[bool], rows: int
) -> Iterator[ColumnElement[bool]]:
    """Split the rows that meet a condition into key ranges of at most `rows` rows."""
    after = ""
    while True:
        # Keyset ranges: deleted rows would shift an OFFSET.
        span = select(key).where(condition, key > after).order_by(key).limit(rows).subquery()
        with database.read() as session:
            last = session.scalar(select(func.max(span.c.id)))
        if last is None:
            return
        yield (key > after) & (key <= last)
        after = last


def _unplayed(before: datetime) -> ColumnElement[bool]:
    return (Lease.expires_at < before) & ~exists().where(Match.lease_id == Lease.id)


def _prunable(before: datetime) -> ColumnElement[bool]:
    return (Draw.created_at < before) & Draw.pruned_at.is_(None)


def _in_use(before: datetime) -> ColumnElement[bool]:
    """Return the condition that leases drawn from the distribution have not expired before this time."""
    return exists().where(Lease.draw_id == Draw.id, Lease.expires_at >= before)


def _without_opponents(content: dict[str, Any]) -> dict[str, Any]:
    """Remove the opponents and the players removed by filters from a distribution; see `draws.Account`."""
    filters = [one | {"removed": []} for one in content["filters"]]
    items: dict[str, Any] = {name: type(values)() for name, values in content["items"].items()}
    return content | {"filters": filters, "items": items}
