"""Sessions of PostgreSQL that wait for one another."""

import threading
import time

from sqlalchemy import text

from league.db.engine import Database

PATIENCE_S = 120


def wait_for_waiters(database: Database, count: int, on: str = "advisory") -> None:
    """Return once so many sessions wait for an advisory lock, or for another session's rows."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        f"AND wait_event_type = 'Lock' AND wait_event = '{on}'"
    )
    pause, until = threading.Event(), time.monotonic() + PATIENCE_S
    with database.autocommit_read() as session:  # a transaction would see the same activity again and again
        while session.scalar(waiting) < count:
            assert time.monotonic() < until, f"nobody waits for {on}"
            pause.wait(0.01)
