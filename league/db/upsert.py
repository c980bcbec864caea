"""INSERT ... ON CONFLICT for SQLite and PostgreSQL, which SQLAlchemy's common dialect lacks."""

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from league.db.models import Base


def insert_into(session: Session, table: type[Base]) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT of the session's dialect, with `on_conflict_...` methods."""
    return insert_of(session.get_bind().dialect.name, table)


def insert_of(dialect: str, table: type[Base] | Table) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT of a dialect, for statements that are built once."""
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)
