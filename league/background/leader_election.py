"""Leader election: a leader lease in the database elects one process per task.

Two processes may briefly believe that they are the leader if one was suspended past its term. The task must tolerate
that. Closing a period does, because only one of them can write it.
"""

import logging
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import delete, or_
from sqlalchemy.orm import Session

from league.db.engine import Database
from league.db.models import LeaderLease
from league.db.upsert import insert_into

_CLOCK_SKEW_TERMS = 2
"""Maximum clock skew of a live leader, in terms."""

log = logging.getLogger(__name__)


class Candidate:
    """Candidate for the leadership of tasks, with an id of its own.

    Args:
        database: Database of the league.
        term_s: Lifetime of a leader lease without renewal, in seconds.
    """

    def __init__(self, database: Database, term_s: float) -> None:
        self._database, self._term_s = database, term_s
        self._id = uuid4().hex
        self._may_lead = False

    def acquire(self, task: str, now: datetime) -> bool:
        """Acquire or renew the leader lease of a task; return True if this candidate now holds it."""
        with self._database.write() as session:
            elected = acquire(session, task, self._id, now, self._term_s)
        # Stays set if one task is lost, so that `release` gives back the leases of the others.
        self._may_lead |= elected
        return elected

    def release(self, task: str | None = None) -> None:
        """Release the leader lease of a task, or all of them; an error is logged, because leases expire anyway."""
        if not self._may_lead:
            return
        try:
            with self._database.write() as session:
                release(session, self._id, task)
        except Exception as error:  # noqa: BLE001 - the lease expires anyway
            message = "releasing the leader lease failed (%s); another process takes over within %g s"
            log.error(message, error, self._term_s)  # noqa: TRY400
        else:
            self._may_lead = task is not None


def acquire(session: Session, task: str, candidate: str, now: datetime, term_s: float) -> bool:
    """Acquire or renew a leader lease; return True if the candidate now holds it.

    A lease that expires too far in the future was acquired before the clock was set back and counts as expired.

    Args:
        session: A write transaction.
        task: Name of the task.
        candidate: Id of the process.
        now: The time.
        term_s: Lifetime of the lease without renewal, in seconds.
    """
    term = timedelta(seconds=term_s)
    row = {"task": task, "holder": candidate, "until": now + term}
    statement = insert_into(session, LeaderLease).values(row)
    # The condition is part of the upsert, so two candidates cannot both find the lease free.
    free = or_(
        LeaderLease.holder == candidate, LeaderLease.until <= now, LeaderLease.until > now + _CLOCK_SKEW_TERMS * term
    )
    statement = statement.on_conflict_do_update(index_elements=["task"], set_=row, where=free)
    return session.scalar(statement.returning(LeaderLease.holder)) == candidate


def release(session: Session, candidate: str, task: str | None = None) -> None:
    """Release one lease of the candidate, or all of them, so that another process can take over at once."""
    # Only its own: another process may have taken over a lease that expired.
    own_leases = delete(LeaderLease).where(LeaderLease.holder == candidate)
    session.execute(own_leases if task is None else own_leases.where(LeaderLease.task == task))
