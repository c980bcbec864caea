"""What results are judged by: leases, and how long matches can be. Neither changes, so each process keeps them."""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from sys import intern
from typing import Any

from sqlalchemy import Row, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from league.db.bulk import among
from league.db.models import Learner, Lease, Player

CACHE_SIZE = 2**16
"""Leases that one process remembers; about 20 MB."""

Game = tuple[str, str]
"""An environment and its signature."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A lease as far as its results are judged and kept by it; `signature` is that of its players' environment."""

    lease_id: str
    worker_id: str
    kind: str
    environment: str
    home_id: int
    away_id: int
    seed: int
    budget: int
    expires_at: datetime
    signature: str

    @property
    def game(self) -> Game:
        """What is played."""
        return self.environment, self.signature


class TermsCache:
    """Leases and limits that this process has read or written."""

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._terms: dict[str, Terms] = {}
        self._limits: dict[Game, int] = {}

    def terms(self, session: Session, lease_ids: Collection[str]) -> Mapping[str, Terms]:
        """Return the leases that exist, by id."""
        with self._lock:
            known = {each: self._terms[each] for each in lease_ids if each in self._terms}
        missing = [each for each in lease_ids if each not in known]
        if missing:
            read = _read(session, missing)
            known |= read
            self.remember(read)
        return known

    def remember(self, terms: Mapping[str, Terms]) -> None:
        """Keep leases by id, which are committed; the oldest ones are forgotten."""
        with self._lock:
            self._terms |= terms
            for oldest in list(islice(self._terms, max(0, len(self._terms) - self._size))):
                del self._terms[oldest]

    def limits(self, session: Session, games: Collection[Game]) -> Mapping[Game, int]:
        """Return the longest match of each game for which a learner declared it."""
        missing = {environment for environment, signature in games if (environment, signature) not in self._limits}
        if missing:
            own = Learner.environment, Learner.signature
            declared = select(*own, func.max(Learner.max_decisions)).where(Learner.environment.in_(missing))
            rows = session.execute(declared.group_by(*own))
            self._limits |= {(environment, signature): longest for environment, signature, longest in rows if longest}
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
    Lease.expires_at,
    Player.signature,
)


def _read(session: Session, lease_ids: Collection[str]) -> dict[str, Terms]:
    query = select(*_COLUMNS).join(Player, Player.id == Lease.home_id).where(among(session, Lease.id, lease_ids))
    return {row.id: _terms(row) for row in session.connection().execute(query)}


def _terms(row: Row[*tuple[Any, ...]]) -> Terms:
    """Keep text that many leases share once, not once for each: it is a third of what the cache holds."""
    return Terms(
        lease_id=row.id,
        worker_id=intern(row.worker_id),
        kind=intern(row.kind),
        environment=intern(row.environment),
        home_id=row.home_id,
        away_id=row.away_id,
        seed=row.seed,
        budget=row.budget,
        expires_at=row.expires_at,
        signature=intern(row.signature),
    )
