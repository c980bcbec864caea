"""Options and sessions of commands that open the league's own database."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.exc import DatabaseError, OperationalError

from league.db import schema
from league.db.engine import Database, is_missing
from league.errors import ConfigurationError, DatabaseUnavailableError, OldDatabaseError
from league.services.environments import lookup as environments
from league.settings import Settings

Home = Annotated[
    Path | None,
    typer.Option("--home", envvar="LEAGUE_HOME", help="Folder of all that the league keeps.", show_default="var"),
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
    """How a command is told where a league lives: its folder, and its database where that is elsewhere."""

    home: str
    database: str


OWN = Options("--home or LEAGUE_HOME", "--database-url or LEAGUE_DATABASE_URL")


@contextmanager
def connected(settings: Settings, options: Options = OWN) -> Iterator[Database]:
    """Open the database that the settings name, whatever its schema; a file that is not there is made.

    Args:
        settings: Where it is.
        options: How the command was told that.

    Raises:
        ConfigurationError: The home folder or the file of the database cannot be used.
        DatabaseUnavailableError: The database's server does not answer, or not as it should.
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
    """Say in one line why a database cannot be worked with.

    Raises:
        ConfigurationError: It is a file that cannot be used.
        DatabaseUnavailableError: Its server does not answer, or not as it should.
    """
    try:
        yield
    except DatabaseError as error:
        if type(error) not in (OperationalError, DatabaseError):
            raise  # a wrong statement is a defect of ours
        rule = f"it cannot be used ({str(error.orig).strip().splitlines()[0]})"
        way_out = f"start it, or correct {options.database}"
        if database.sqlite:
            raise ConfigurationError(f"database {database}", rule, way_out) from error
        raise DatabaseUnavailableError(database, rule, way_out) from error


@contextmanager
def existing(settings: Settings) -> Iterator[Database]:
    """Open a database that is there, whatever its schema; nothing is made.

    Raises:
        ConfigurationError: There is none, or it cannot be used.
        DatabaseUnavailableError: Its server does not answer.
    """
    if is_missing(settings.database_address):
        way_out = "name the league's folder with --home or LEAGUE_HOME; `league serve` makes a new league"
        raise ConfigurationError(f"database {settings.database_address}", "there is no such file", way_out)
    with connected(settings) as database:
        yield database


@contextmanager
def current(settings: Settings) -> Iterator[Database]:
    """Open a database that is there and refuse a schema that is not this version's."""
    with existing(settings) as database:
        schema.check(database)
        yield database


def migrate(settings: Settings) -> None:
    """Bring an older schema to this version's head, or make a new league, saying so first.

    Raises:
        NewerDatabaseError: The schema belongs to a newer version.
    """
    with connected(settings) as database:
        try:
            schema.check(database)
        except OldDatabaseError:
            new = "making a new league: " if schema.is_missing(database) else ""
            typer.echo(f"{new}migrating {database} to revision {schema.head()} ...", err=True)
            schema.upgrade(database)


def person() -> str:
    """Name whoever types, for the audit log."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # no user of this machine, as in some containers
        name = "somebody"
    return f"{name} at the command line"


def require_environment(connection: Database, environment: str | None) -> None:
    """Refuse an environment that has no learner; None stands for all.

    Raises:
        UnknownEnvironmentError: It has none.
    """
    with connection.read() as session:
        if environment is not None:
            environments.require(session, environment)
