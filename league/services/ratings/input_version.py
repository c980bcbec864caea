"""Optimistic concurrency: compute while reading, then commit only if the inputs are unchanged."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Event, Period

_OPTIMISTIC_TRIES = 3


@dataclass(frozen=True)
class InputVersion:
    """Version of the inputs of a computation: the last period, and the last event that could change the log."""

    period_id: int
    event_id: int


class Versioned(Protocol):
    """An outcome with the version of its inputs."""

    @property
    def inputs(self) -> InputVersion:
        """Version of the inputs that it was computed from."""


OutcomeT = TypeVar("OutcomeT", bound=Versioned)
AnswerT = TypeVar("AnswerT")


def read(session: Session, environment: str) -> InputVersion:
    """Return the version of the match log as of the session's snapshot.

    Events about a player or a period do not change the log. Any other event, for example the quarantine of a worker,
    may change it.
    """
    concerns = or_(Event.environment == environment, Event.environment.is_(None))
    without_player = func.coalesce(Event.player_id, 0) == 0  # IS NULL would make SQLite scan an index of all periods
    changing = select(func.max(Event.id)).where(concerns, without_player, Event.kind != "period")
    last = select(func.max(Period.id)).where(Period.environment == environment)
    period_id, event_id = session.execute(select(last.scalar_subquery(), changing.scalar_subquery())).one()
    return InputVersion(period_id or 0, event_id or 0)


def unchanged(session: Session, environment: str, before: InputVersion) -> bool:
    """Return True if no period or audit event was added since `before`; lock both until the transaction ends."""
    # Acquired before the versions are read, so that neither can change between this check and the commit.
    locks.acquire(session, Lock.PERIOD, environment)
    locks.acquire(session, Lock.EVENTS)
    return read(session, environment) == before


def compute_then_commit(
    database: Database,
    environment: str,
    compute: Callable[[Session], OutcomeT],
    write: Callable[[Session, OutcomeT], AnswerT],
) -> AnswerT:
    """Compute and write with optimistic concurrency.

    If periods close faster than the computation runs, the last attempt locks them out.
    """
    for _ in range(_OPTIMISTIC_TRIES):
        with database.read() as session:
            outcome = compute(session)
        with database.write() as session:
            if unchanged(session, environment, outcome.inputs):
                return write(session, outcome)
    # The locks of `unchanged` stay until the commit, so no period can close during this computation.
    with database.write() as session:
        unchanged(session, environment, outcome.inputs)
        return write(session, compute(session))
