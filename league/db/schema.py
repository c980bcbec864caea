"""Schema versions and migrations with Alembic."""

from collections.abc import Callable
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
"""Table in which Alembic stores the schema's revision."""

PutRecording = Callable[[str, bytes], None]
"""Stores the bytes of a recording durably under a key."""


def upgrade(database: Database, put_recording: PutRecording | None = None) -> None:
    """Upgrade the schema to this version's head; safe to call from several processes concurrently.

    Args:
        database: Database of the league.
        put_recording: Store of recordings; required if the database has recordings of before revision 0002.

    Raises:
        NewerDatabaseError: The schema belongs to a newer version.
    """
    with database.write_connection() as connection:
        locks.acquire(connection, Lock.SCHEMA)
        _refuse_newer(database, connection)
        upgrade_to(connection, head(), put_recording)


def upgrade_to(connection: Connection, revision: str, put_recording: PutRecording | None = None) -> None:
    """Upgrade a schema to a revision within the connection's transaction."""
    config = _config()
    config.attributes.update(connection=connection, put_recording=put_recording)
    command.upgrade(config, revision)


def check(database: Database) -> None:
    """Check that the schema is that of this version.

    Raises:
        OldDatabaseError: The schema is older or missing.
        NewerDatabaseError: The schema belongs to a newer version.
    """
    current = revision(database)
    if current != head():
        raise _old(f"{database} at revision {current}")


def is_missing(database: Database) -> bool:
    """Return True if the database has no schema."""
    with database.engine.connect() as connection:
        return _current(connection) is None


def revision(database: Database) -> str:
    """Return the revision of a schema of this or an older version.

    Raises:
        OldDatabaseError: The database has no schema.
        NewerDatabaseError: The schema belongs to a newer version.
    """
    with database.engine.connect() as connection:
        _refuse_newer(database, connection)
        current = _current(connection)
    if current is None:
        raise _old(f"{database} without tables")
    return current


def head() -> str:
    """Return the revision that this version requires."""
    return revisions()[0]


@cache  # every readiness probe calls this, and it reads all migrations
def revisions() -> tuple[str, ...]:
    """Return all revisions of this version, newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


def _refuse_newer(database: Database, connection: Connection) -> None:
    current = _current(connection)
    if current is not None and current not in revisions():
        rule = f"this version supports revisions up to {head()}"
        raise NewerDatabaseError(f"{database} at revision {current}", rule, "install the version that created it")


def _old(found: str) -> OldDatabaseError:
    remedy = "run `league db upgrade` with the same --home or --database-url"
    return OldDatabaseError(found, f"this version needs revision {head()}", remedy)


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    config = Config()
    location = _migrations()
    config.set_main_option("script_location", str(location).replace("%", "%%"))
    return config


def _migrations() -> Path:
    """Return the folder of the migrations: inside the installed package, or beside the package in a checkout."""
    package = Path(str(files("league")))
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parent / "migrations"
