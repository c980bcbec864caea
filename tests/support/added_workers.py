"""Work for transactions that are shared: each adds a worker, or fails."""

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from league.db.engine import Database
from league.db.models import Worker

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def adding(name: str, error: Exception | None = None) -> Callable[[Session], str]:
    """Add a worker; then fail, if told so."""

    def work(session: Session) -> str:
        common = {"kind": "trainer", "version": "1", "signatures": [], "command": "continue"}
        session.add(Worker(id=name, name=name, registered_at=NOW, seen_at=NOW, **common))
        session.flush()
        if error is not None:
            raise error
        return name

    return work


def names(database: Database) -> set[str]:
    """Of all workers that were committed."""
    with database.read() as session:
        return set(session.scalars(select(Worker.name)))
