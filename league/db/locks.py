"""Advisory locks across processes, held until the transaction ends.

On PostgreSQL these are advisory locks. On SQLite write transactions are exclusive anyway (BEGIN IMMEDIATE), so they do
nothing. To avoid deadlocks, acquire several locks in the order below, and row locks last. As an exception, rows of
learners and tokens are changed before EVENTS is acquired, and never by a transaction that holds EVENTS.
"""

import zlib
from enum import IntEnum

from sqlalchemy import CTE, Connection, Integer, bindparam, func, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from league.db.engine import Database

IDLE_TIMEOUT_S = 30.0
"""Idle timeout of a transaction that holds a shared lock, because others wait for it."""

_NOT_AVAILABLE = "55P03"  # PostgreSQL's lock_not_available


class Lock(IntEnum):
    """Kinds of locks, per environment; the numbers are the first key of the advisory lock."""

    SCHEMA = 0x1EA61
    PERIOD = 0x1EA62  # closing a period
    INTAKE = 0x1EA63  # shared by writers of matches; exclusive to read a watermark of committed match ids
    COLLECTION = 0x1EA68  # shared by publishing; exclusive to delete unpublished checkpoints
    POPULATION = 0x1EA69  # players' ids commit in order, so that the last id identifies the population
    UPLOADS = 0x1EA6A  # per token instead of environment: serialises the quota of its uploads
    WORKERS = 0x1EA6B  # makes reading and then writing owners and names of workers atomic
    EVENTS = 0x1EA64  # the audit log's ids commit in order, so that a reader's cursor never skips one


def acquire(session: Session | Connection, lock: Lock, environment: str = "") -> None:
    """Acquire an exclusive lock."""
    _call(session, "pg_advisory_xact_lock", lock, environment)


def acquire_shared(session: Session, lock: Lock, environment: str) -> None:
    """Acquire a shared lock, with the idle timeout `IDLE_TIMEOUT_S`."""
    limit = f"set_config('idle_in_transaction_session_timeout', '{1000 * IDLE_TIMEOUT_S:.0f}', true)"
    _call(session, f"{limit}, pg_advisory_xact_lock_shared", lock, environment)


def sharing() -> CTE:
    """Return a CTE that acquires a shared lock before the statement reads any row, with the parameters of `named`."""
    shared = func.pg_advisory_xact_lock_shared(bindparam("lock", type_=Integer), bindparam("key", type_=Integer))
    # MATERIALIZED: the lock is acquired exactly once, however the planner joins the rows.
    return select(shared.label("acquired")).cte("sharing").prefix_with("MATERIALIZED", dialect="postgresql")


def named(lock: Lock, environment: str) -> dict[str, int]:
    """Return the keys of PostgreSQL's advisory lock."""
    # Advisory lock keys are two signed 32-bit integers; a collision of hashes only serialises two environments.
    return {"lock": int(lock), "key": zlib.crc32(environment.encode()) - 2**31}


def wait_for_holders(database: Database, lock: Lock, environment: str, timeout_s: float) -> bool:
    """Wait until all current holders of a shared lock have finished; return False on a timeout."""
    if database.sqlite:
        return True
    try:
        with database.write() as session:
            session.execute(text(f"SET LOCAL lock_timeout = '{1000 * timeout_s:.0f}ms'"))
            acquire(session, lock, environment)
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) == _NOT_AVAILABLE:
            return False
        raise
    return True


def _call(session: Session | Connection, function: str, lock: Lock, environment: str) -> None:
    connection = session.connection() if isinstance(session, Session) else session
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT {function}(:lock, :key)"), named(lock, environment))
