"""Leader election: the database elects one process for a task, for a term that it renews while it works.

Two processes may think for a moment that they hold an office, where one was stopped past its term. What they do must
bear that; closing a period does, because only one of them can write it.
"""

from datetime import datetime, timedelta

from sqlalchemy import delete, or_
from sqlalchemy.orm import Session

from league.db.models import Election
from league.db.upsert import insert_into

_CLOCKS_APART = 2
"""In terms: how far ahead the clock of a holder may be that is at work."""


def acquire(session: Session, duty: str, candidate: str, now: datetime, term_s: float) -> bool:
    """Take an office that is free, or renew one's own; say whether the candidate holds it now.

    An office that is held for longer than a term from now was taken by a clock that has been set back since: it is
    free, or nobody could take it before that time comes again.

    Args:
        session: A write transaction.
        duty: Which office.
        candidate: Who stands, the same at every call of a process.
        now: The time.
        term_s: How long an office is held without renewal, in seconds.
    """
    term = timedelta(seconds=term_s)
    row = {"duty": duty, "holder": candidate, "until": now + term}
    statement = insert_into(session, Election).values(row)
    free = or_(Election.holder == candidate, Election.until <= now, Election.until > now + _CLOCKS_APART * term)
    statement = statement.on_conflict_do_update(index_elements=["duty"], set_=row, where=free)
    return session.scalar(statement.returning(Election.holder)) == candidate


def release(session: Session, candidate: str, duty: str | None = None) -> None:
    """Give up an office, or every one, so that nobody waits for the terms' ends."""
    held = delete(Election).where(Election.holder == candidate)
    session.execute(held if duty is None else held.where(Election.duty == duty))
