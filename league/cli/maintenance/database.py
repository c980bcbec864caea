"""Options and sessions of commands that open the league's database directly."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.exc import DatabaseError, OperationalError

from league.db import schema
from league.db.engine import Database, is_missing
from league.errors import ConfigurationError, DatabaseUnavailableError, OldDatabaseError
from league.services.environments import lookup as environments
from league.settings import Settings
from league.storage.factory import open_store

Home = Annotated[
    Path | None,
    typer.Option("--home", envvar="LEAGUE_HOME", help="Folder of the league's data.", show_default="var"),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="LEAGUE_DATABASE_URL",
        help="sqlite:///FILE or postgresql://HOST/NAME.",
        show_default="league.db in the home folder",
    ),
]


@dataclass(frozen=True)
class Options:
    """Names of the options that locate a league, for error messages."""

    home: str
    database: str


OWN = Options("--home or LEAGUE_HOME", "--database-url or LEAGUE_DATABASE_URL")


@contextmanager
def connected(settings: Settings, options: Options = OWN) -> Iterator[Database]:
    """Open the settings' database with any schema; a missing file is created.

    Args:
        settings: Location of the database.
        options: Options to name in errors.

    Raises:
        ConfigurationError: The home folder or the database file cannot be used.
        DatabaseUnavailableError: The database server does not respond, or rejects the connection.
    """
    try:
        database = Database(settings.database_address)
    except OSError as error:
        rule = f"{error.strerror}: {error.filename}"
        raise ConfigurationError(f"home {settings.home}", rule, f"choose another with {options.home}") from error
    try:
        with answering(database, options):
            yield database
    finally:
        database.close()


@contextmanager
def answering(database: Database, options: Options = OWN) -> Iterator[None]:
    """Convert errors of the database driver to a `LeagueError`.

    Raises:
        ConfigurationError: The database file cannot be used.
        DatabaseUnavailableError: The database server does not respond, or rejects the connection.
    """
    try:
        yield
    except DatabaseError as error:
        if type(error) not in (OperationalError, DatabaseError):
            raise  # an invalid statement is a bug
        rule = f"it cannot be used ({str(error.orig).strip().splitlines()[0]})"
        remedy = f"start it, or correct {options.database}"
        if database.sqlite:
            raise ConfigurationError(f"database {database}", rule, remedy) from error
        raise DatabaseUnavailableError(database, rule, remedy) from error


@contextmanager
def existing(settings: Settings) -> Iterator[Database]:
    """Open an existing database with any schema.

    Raises:
        ConfigurationError: The database does not exist or cannot be used.
        DatabaseUnavailableError: The database server does not respond.
    """
    if is_missing(settings.database_address):
        remedy = "set the league's folder with --home or LEAGUE_HOME; `league serve` creates a new league"
        raise ConfigurationError(f"database {settings.database_address}", "there is no such file", remedy)
    with connected(settings) as database:
        yield database


@contextmanager
def current(settings: Settings) -> Iterator[Database]:
    """Open an existing database and reject a schema of another version."""
    with existing(settings) as database:
        schema.check(database)
        yield database


def migrate(settings: Settings) -> None:
    """Upgrade an older schema to this version's head, or create a new league.

    Recordings in an older database move to the store.

    Raises:
        NewerDatabaseError: The schema belongs to a newer version.
        StoreUnavailableError: There are recordings to move, but the store cannot be written.
    """
    with connected(settings) as database:
        try:
            schema.check(database)
        except OldDatabaseError:
            new = "creating a new league: " if schema.is_missing(database) else ""
            typer.echo(f"{new}migrating {database} to revision {schema.head()} ...", err=True)
            store = cache(lambda: open_store(settings))  # most upgrades do not need it
            schema.upgrade(database, lambda key, content: store().recordings.put(key, content))


def user_name() -> str:
    """Return the current user's name for the audit log."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # the process has no user entry, as in some containers
        name = "unknown user"
    return f"{name} at the command line"


def require_environment(connection: Database, environment: str | None) -> None:
    """Reject an unknown environment; None means all.

    Raises:
        UnknownEnvironmentError: The environment does not exist.
    """
    with connection.read() as session:
        if environment is not None:
            environments.require(session, environment)
