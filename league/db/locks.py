"""Advisory locks that every process of a league sees, held until the transaction ends.

On SQLite a write transaction is alone anyway (BEGIN IMMEDIATE), so these are PostgreSQL's advisory locks and nothing
on SQLite. Where several are taken, the order is the one below, and rows come last; only the rows of learners and tokens
are changed before EVENTS is taken to tell of it, and by nobody who holds it.
"""

import zlib
from enum import IntEnum

from sqlalchemy import CTE, Connection, Integer, bindparam, func, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from league.db.engine import Database

SILENCE_S = 30.0
"""How long one who shares a lock may do nothing before PostgreSQL ends its transaction: others wait for it."""

_NOT_AVAILABLE = "55P03"  # PostgreSQL's code for a lock that was not had in time


class Lock(IntEnum):
    """What is locked, per environment. The numbers are the first key of the advisory lock."""

    SCHEMA = 0x1EA61
    PERIOD = 0x1EA62  # one closer at a time
    INTAKE = 0x1EA63  # shared by writers of matches; exclusive to read a watermark that nothing can slip under
    COLLECTION = 0x1EA68  # shared by publishing; exclusive to delete checkpoints that nobody has published
    POPULATION = 0x1EA69  # players' ids commit in order, so that the last one says who there is
    UPLOADS = 0x1EA6A  # of a token, not of an environment: what it announces is summed one after the other
    EVENTS = 0x1EA64  # the audit log's ids commit in order, so that a reader's cursor never passes one by


def acquire(session: Session | Connection, lock: Lock, environment: str = "") -> None:
    """Wait for a lock and hold it alone."""
    _call(session, "pg_advisory_xact_lock", lock, environment)


def acquire_shared(session: Session, lock: Lock, environment: str) -> None:
    """Wait for a lock and hold it together with others who share it, never silent for longer than `SILENCE_S`."""
    limit = f"set_config('idle_in_transaction_session_timeout', '{1000 * SILENCE_S:.0f}', true)"
    _call(session, f"{limit}, pg_advisory_xact_lock_shared", lock, environment)


def sharing() -> CTE:
    """Return what a statement selects from to share a lock before any of its rows; executed with `named` values."""
    shared = func.pg_advisory_xact_lock_shared(bindparam("lock", type_=Integer), bindparam("key", type_=Integer))
    return select(shared.label("held")).cte("sharing").prefix_with("MATERIALIZED", dialect="postgresql")


def named(lock: Lock, environment: str) -> dict[str, int]:
    """Return the numbers that PostgreSQL knows a lock by."""
    return {"lock": int(lock), "key": zlib.crc32(environment.encode()) - 2**31}


def wait_for_holders(database: Database, lock: Lock, environment: str, patience_s: float) -> bool:
    """Wait until all who share a lock now have ended; say whether they had within the patience."""
    if database.sqlite:
        return True
    try:
        with database.write() as session:
            session.execute(text(f"SET LOCAL lock_timeout = '{1000 * patience_s:.0f}ms'"))
            acquire(session, lock, environment)
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) == _NOT_AVAILABLE:
            return False
        raise
    return True


def try_acquire(session: Session, lock: Lock, environment: str) -> bool:
    """Hold a lock alone if nobody has it; say whether that succeeded."""
    return _call(session, "pg_try_advisory_xact_lock", lock, environment)


def _call(session: Session | Connection, function: str, lock: Lock, environment: str) -> bool:
    connection = session.connection() if isinstance(session, Session) else session
    if connection.dialect.name != "postgresql":
        return True
    *_, answer = connection.execute(text(f"SELECT {function}(:lock, :key)"), named(lock, environment)).one()
    return answer is not False
