"""Leader election: a leader lease in the database elects one process per task.

Two processes may briefly believe that they are the leader if one was suspended past its term. The task must tolerate
that. Closing a period does, because only one of them can write it.
"""

from datetime import datetime, timedelta

from sqlalchemy import delete, or_
from sqlalchemy.orm import Session

from league.db.models import LeaderLease
from league.db.upsert import insert_into

_CLOCK_SKEW_TERMS = 2
"""Maximum clock skew of a live leader, in terms."""


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
