"""The `league` command: run a league, inspect it and manage its population."""

import errno
import sys
from collections.abc import Sequence
from io import StringIO, TextIOWrapper
from typing import NoReturn

import typer
from pydantic import ValidationError

from arena.exit_status import BAD_CONFIGURATION, BAD_USAGE, FAILURE, TRY_LATER
from arena.help_format import markup_mode
from league.cli.commands import app
from league.cli.up.failures import PartRefusedError, UnusableInstallationError
from league.errors import (
    ChampionConflictError,
    ConfigurationError,
    DatabaseUnavailableError,
    InvalidRequestError,
    LeagueError,
    LeagueUnreachable,
    NewerDatabaseError,
    OpenServerError,
    StoreUnavailableError,
    UnknownGateError,
    UnknownLearnerError,
    UnknownLeaseError,
    UnknownPeriodError,
    UnknownPlayerError,
    UnknownWorkerError,
)

_REMEDIES: dict[type[LeagueError], str] = {
    ChampionConflictError: "check `league environment champion` and try again",
    UnknownGateError: "`league gate list` lists them all",
    UnknownLearnerError: "`league learner list` lists them all",
    UnknownLeaseError: "`league show PLAYER --json` names the leases of its latest matches",
    UnknownPeriodError: "`league admin log --periods` lists them",
    UnknownPlayerError: "`league players` lists them all",
    UnknownWorkerError: "`league worker list` lists them all",
}
"""Remedies as commands, for errors whose `remedy` names an HTTP call."""

_STATUSES: dict[type[LeagueError], int] = {
    ConfigurationError: BAD_USAGE,
    DatabaseUnavailableError: TRY_LATER,
    InvalidRequestError: BAD_USAGE,
    LeagueUnreachable: TRY_LATER,
    NewerDatabaseError: BAD_CONFIGURATION,
    OpenServerError: BAD_CONFIGURATION,
    StoreUnavailableError: TRY_LATER,
    UnusableInstallationError: BAD_CONFIGURATION,
}
"""Exit status per error; any other error exits with 1."""

_HELP = "see `league COMMAND --help`"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and print expected errors as one line on stderr.

    Exit statuses: 0 for success, 2 for bad usage, an invalid setting or a value that the server rejects, 75 if the
    league, its database or the store is unavailable and a retry may succeed, 78 if no retry can help, for example with
    a database of a newer version, and 1 for any other error.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    app.rich_markup_mode = markup_mode()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # terminals without Unicode show a question mark
    try:
        _require_text(arguments)
        app(arguments)
    except LeagueError as error:
        _exit_with(error)
    except ValidationError as error:
        if not _is_of_request(error):
            raise
        _exit_with(InvalidRequestError.of_field(error.errors()[0], _HELP))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            _exit_with_file_error(error)
        typer.echo(f"league: cannot write the output: {error.strerror}; free some disk space", err=True)
        sys.stdout = StringIO()  # the interpreter flushes stdout at exit, which would fail again
        sys.exit(FAILURE)


def _require_text(arguments: Sequence[str]) -> None:
    """Reject arguments that are not valid UTF-8, because neither JSON nor the database can store them.

    Raises:
        ConfigurationError: An argument is not valid UTF-8.
    """
    for argument in arguments:
        if not argument.isascii() and argument != argument.encode(errors="replace").decode():
            raise ConfigurationError(f"argument {argument!a:.120}", "it is not valid UTF-8", "encode it as UTF-8")


def _exit_with_file_error(error: OSError) -> NoReturn:
    """Print the error of a file that an option names; re-raise any other `OSError`, which is a bug."""
    if error.filename is None or error.strerror is None:
        raise error
    _exit_with(ConfigurationError(f"file {str(error.filename)!r:.120}", error.strerror, "choose another path"))


def _exit_with(error: LeagueError) -> NoReturn:
    from league.cli.output.grid import printable

    typer.echo(f"league: {printable(_described(error))}", err=True)
    if isinstance(error, PartRefusedError):
        sys.exit(error.exit_status)
    sys.exit(next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), FAILURE))


def _is_of_request(error: ValidationError) -> bool:
    """Return True if a request to the server failed validation, so the user's input is invalid."""
    from league import wire

    kind = getattr(wire, error.title, None)
    return isinstance(kind, type) and issubclass(kind, wire.Request)


def _described(error: LeagueError) -> str:
    """Return the error's message with its remedy as a command."""
    remedy = _REMEDIES.get(type(error), error.remedy)
    if "/docs" in remedy:
        remedy = _HELP
    return str(type(error)(error.value, error.rule, remedy))
