"""Cache of leases and match length limits, for the validation of results. Leases never change, limits only grow."""

import threading
from collections.abc import Collection, Mapping
from datetime import datetime
from sys import intern
from typing import Any, NamedTuple

from cachetools import FIFOCache
from sqlalchemy import Row, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from league.db.bulk_insert import among
from league.db.models import Environment, Lease, Player

CACHE_SIZE = 2**16
"""Maximum number of cached leases per process; about 20 MB."""


class LeaseRecord(NamedTuple):
    """Columns of a lease that its results are validated and stored with; `signature` is that of its players."""

    lease_id: str
    worker_id: str
    kind: str
    environment: str
    home_id: int
    away_id: int
    seed: int
    budget: int
    granted_at: datetime
    expires_at: datetime
    signature: str


class LeaseCache:
    """Leases and limits that this process has read or written; the oldest leases are evicted first."""

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self._lock = threading.Lock()
        self._records: FIFOCache[str, LeaseRecord] = FIFOCache(size)
        self._limits: dict[str, int] = {}

    def get(self, session: Session, lease_ids: Collection[str]) -> Mapping[str, LeaseRecord]:
        """Return the leases that exist, by id."""
        with self._lock:
            known = {each: self._records[each] for each in lease_ids if each in self._records}
        missing = [each for each in lease_ids if each not in known]
        # Leases granted by another process, or before a restart.
        if missing:
            read = _read(session, missing)
            known |= read
            self.remember(read)
        return known

    def remember(self, records: Mapping[str, LeaseRecord]) -> None:
        """Cache committed leases by id."""
        with self._lock:
            self._records.update(records)

    def forget(self, lease_ids: Collection[str]) -> None:
        """Evict leases, so that they are read again."""
        with self._lock:
            for each in lease_ids:
                self._records.pop(each, None)

    def limits(self, session: Session, lengths: Mapping[str, int]) -> Mapping[str, int]:
        """Return the declared maximum match length of each environment that has one.

        Args:
            session: Reads limits that are not cached.
            lengths: Longest reported match of each environment.
        """
        # A cached limit below a reported match may be out of date: a learner of longer matches raises it.
        missing = {name for name, longest in lengths.items() if self._limits.get(name, 0) < longest}
        if missing:
            query = select(Environment.name, Environment.max_decisions).where(Environment.name.in_(missing))
            self._limits |= {name: longest for name, longest in session.execute(query) if longest is not None}
        return self._limits


_COLUMNS: tuple[InstrumentedAttribute[Any], ...] = (
    Lease.id,
    Lease.worker_id,
    Lease.kind,
    Lease.environment,
    Lease.home_id,
    Lease.away_id,
    Lease.seed,
    Lease.budget,
    Lease.granted_at,
    Lease.expires_at,
    Player.signature,
)


def _read(session: Session, lease_ids: Collection[str]) -> dict[str, LeaseRecord]:
    query = select(*_COLUMNS).join(Player, Player.id == Lease.home_id).where(among(session, Lease.id, lease_ids))
    return {row.id: _to_record(row) for row in session.connection().execute(query)}


def _to_record(row: Row[*tuple[Any, ...]]) -> LeaseRecord:
    """Intern text that many leases share, which would otherwise take a third of the cache."""
    return LeaseRecord(
        lease_id=row.id,
        worker_id=intern(row.worker_id),
        kind=intern(row.kind),
        environment=intern(row.environment),
        home_id=row.home_id,
        away_id=row.away_id,
        seed=row.seed,
        budget=row.budget,
        granted_at=row.granted_at,
        expires_at=row.expires_at,
        signature=intern(row.signature),
    )
