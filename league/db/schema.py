"""Versions of the schema, through alembic."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.errors import NewerDatabaseError, OldDatabaseError

VERSION_TABLE = "alembic_version"
"""Where alembic notes the revision of a schema."""


def upgrade(database: Database) -> None:
    """Bring the schema to this version's head; safe to call from several processes at once.

    Raises:
        NewerDatabaseError: The schema belongs to a newer version.
    """
    with database.write_connection() as connection:
        locks.acquire(connection, Lock.SCHEMA)
        _refuse_newer(database, connection)
        move(connection, head())


def move(connection: Connection, revision: str) -> None:
    """Bring a schema up, or down, to a revision, inside the connection's transaction."""
    config = _config()
    config.attributes["connection"] = connection
    newer = revisions()[: revisions().index(revision)]
    change = command.downgrade if _current(connection) in newer else command.upgrade
    change(config, revision)


def check(database: Database) -> None:
    """Refuse a schema that is not this version's.

    Raises:
        OldDatabaseError: The schema is older, or there is none.
        NewerDatabaseError: The schema belongs to a newer version.
    """
    current = revision(database)
    if current != head():
        raise _old(f"{database} at revision {current}")


def is_missing(database: Database) -> bool:
    """Say whether there is no schema."""
    with database.engine.connect() as connection:
        return _current(connection) is None


def revision(database: Database) -> str:
    """Return the revision of a schema that is this version's or an older one.

    Raises:
        OldDatabaseError: There is no schema.
        NewerDatabaseError: The schema belongs to a newer version.
    """
    with database.engine.connect() as connection:
        _refuse_newer(database, connection)
        current = _current(connection)
    if current is None:
        raise _old(f"{database} without tables")
    return current


def head() -> str:
    """Return the revision that this version needs."""
    return revisions()[0]


@cache  # every readiness probe asks, and the answer takes reading all migrations
def revisions() -> tuple[str, ...]:
    """Return every revision that this version knows, newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


def _refuse_newer(database: Database, connection: Connection) -> None:
    current = _current(connection)
    if current is not None and current not in revisions():
        rule = f"this version knows revisions up to {head()}"
        raise NewerDatabaseError(f"{database} at revision {current}", rule, "install the version that made it")


def _old(found: str) -> OldDatabaseError:
    way_out = "run `league db upgrade` with the same --home or --database-url"
    return OldDatabaseError(found, f"this version needs revision {head()}", way_out)


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    config = Config()
    location = Path(str(files("migrations")))
    config.set_main_option("script_location", str(location).replace("%", "%%"))
    return config
