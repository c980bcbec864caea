"""What a read costs SQLite, whatever the machine is busy with."""

from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session

from league.db.engine import Database


def steps(database: Database, read: Callable[[Session], Any]) -> int:
    """Count the instructions of SQLite's virtual machine that a read takes."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    with database.read() as session:
        driver: Any = session.connection().connection.driver_connection
        driver.set_progress_handler(count, 1)
        read(session)
        driver.set_progress_handler(None, 0)
    return taken
