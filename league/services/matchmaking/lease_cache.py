"""Cache of leases and longest matches, which results are validated by. Neither changes.

That nobody has declared how long a game's matches are may change, and is kept for a moment only.
"""

import threading
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from itertools import islice
from sys import intern
from typing import Any, NamedTuple

from sqlalchemy import Row, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from league.db.bulk_insert import among
from league.db.models import Learner, Lease, Player

CACHE_SIZE = 2**16
"""Leases that one process remembers; about 20 MB."""

UNDECLARED = timedelta(seconds=10)
"""How long a process goes by it that a game has no limit."""

Game = tuple[str, str]
"""An environment and its signature."""


class LeaseTerms(NamedTuple):
    """A lease as far as its results are judged and kept by it; `signature` is that of its players' environment."""

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

    @property
    def game(self) -> Game:
        """What is played."""
        return self.environment, self.signature


class LeaseCache:
    """Leases and limits that this process has read or written."""

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._terms: dict[str, LeaseTerms] = {}
        self._limits: dict[Game, int] = {}
        self._undeclared: dict[Game, datetime] = {}

    def terms(self, session: Session, lease_ids: Collection[str]) -> Mapping[str, LeaseTerms]:
        """Return the leases that exist, by id."""
        with self._lock:
            known = {each: self._terms[each] for each in lease_ids if each in self._terms}
        missing = [each for each in lease_ids if each not in known]
        if missing:
            read = _read(session, missing)
            known |= read
            self.remember(read)
        return known

    def remember(self, terms: Mapping[str, LeaseTerms]) -> None:
        """Keep leases by id, which are committed; the oldest ones are forgotten."""
        with self._lock:
            self._terms |= terms
            for oldest in list(islice(self._terms, max(0, len(self._terms) - self._size))):
                del self._terms[oldest]

    def forget(self, lease_ids: Collection[str]) -> None:
        """Read these leases again when they are asked for next."""
        with self._lock:
            for each in lease_ids:
                self._terms.pop(each, None)

    def limits(self, session: Session, games: Collection[Game], now: datetime) -> Mapping[Game, int]:
        """Return the longest match of each game for which a learner declared it."""
        missing = {game for game in games if game not in self._limits and not self._is_undeclared(game, now)}
        if missing:
            own = Learner.environment, Learner.signature
            declared = select(*own, func.max(Learner.max_decisions))
            rows = session.execute(
                declared.where(Learner.environment.in_({each for each, _ in missing})).group_by(*own)
            )
            self._limits |= {(environment, signature): longest for environment, signature, longest in rows if longest}
            self._undeclared |= dict.fromkeys(missing - self._limits.keys(), now)
        return self._limits

    def _is_undeclared(self, game: Game, now: datetime) -> bool:
        """Say whether a game had no limit a moment ago; a clock that was set back makes no moment longer."""
        asked_at = self._undeclared.get(game)
        return asked_at is not None and asked_at <= now < asked_at + UNDECLARED


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


def _read(session: Session, lease_ids: Collection[str]) -> dict[str, LeaseTerms]:
    query = select(*_COLUMNS).join(Player, Player.id == Lease.home_id).where(among(session, Lease.id, lease_ids))
    return {row.id: _terms(row) for row in session.connection().execute(query)}


def _terms(row: Row[*tuple[Any, ...]]) -> LeaseTerms:
    """Keep text that many leases share once, not once for each: it is a third of what the cache holds."""
    return LeaseTerms(
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
