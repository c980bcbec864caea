"""INSERT ... ON CONFLICT, which SQLite and PostgreSQL share but the common dialect lacks."""

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from league.db.models import Base


def insert_into(session: Session, table: type[Base]) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT of the session's dialect, with its `on_conflict_...` methods."""
    if session.get_bind().dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
