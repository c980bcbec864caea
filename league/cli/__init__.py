"""The `league` command: run a league on this machine, look into one anywhere, and look after its population."""

import errno
import sys
from collections.abc import Sequence
from io import StringIO, TextIOWrapper
from shutil import get_terminal_size
from typing import NoReturn

import typer
from pydantic import ValidationError

from arena.exit_status import BAD_CONFIGURATION, BAD_USAGE, FAILURE, TRY_LATER
from arena.release import show_version
from league import wire
from league.cli import (
    audit,
    behaviour,
    gates,
    learners,
    lifecycle,
    lineage,
    matchmaking,
    players,
    redundancy,
    regressions,
    replays,
    serve,
    superiority,
    workers,
)
from league.cli.maintenance import environments, fork, integrity, rating_periods, retention, schema, tokens, transfer
from league.cli.maintenance import gc as checkpoint_gc
from league.cli.output.grid import printable
from league.cli.up import command as up
from league.cli.up.failures import PartRefusedError
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
    UnknownLeaseError,
    UnknownPeriodError,
    UnknownPlayerError,
)

BOX_COLUMNS = 80
"""A narrower terminal gets help without boxes, which would cut the names of options short."""

_WAYS_OUT: dict[type[LeagueError], str] = {
    ChampionConflictError: "look at `league champion` and decide anew",
    UnknownGateError: "`league gates` lists them all",
    UnknownLeaseError: "`league show PLAYER --json` names the leases of its latest matches",
    UnknownPeriodError: "`league log --periods` lists them",
    UnknownPlayerError: "`league players` lists them all",
}
"""What to do at a terminal, where the server's way out is another of its calls."""

_STATUSES: dict[type[LeagueError], int] = {
    ConfigurationError: BAD_USAGE,
    DatabaseUnavailableError: TRY_LATER,
    InvalidRequestError: BAD_USAGE,
    LeagueUnreachable: TRY_LATER,
    NewerDatabaseError: BAD_CONFIGURATION,
    OpenServerError: BAD_CONFIGURATION,
    StoreUnavailableError: TRY_LATER,
    up.UnusableInstallationError: BAD_CONFIGURATION,
}
"""What a command exits with because of an error; with 1 for any other."""

_HELP = "`league COMMAND --help` says what it takes"

app = typer.Typer(
    name="league",
    help="A self-play league: its server, its population, its ratings.",
    epilog="Example: league up",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(show_version)
for part in (
    up,
    serve,
    players,
    audit,
    learners,
    matchmaking,
    gates,
    lineage,
    behaviour,
    lifecycle,
    rating_periods,
    integrity,
    checkpoint_gc,
    transfer,
    fork,
    retention,
    superiority,
    regressions,
    redundancy,
    replays,
):
    app.registered_commands.extend(part.app.registered_commands)
app.add_typer(tokens.app, name="token")
app.add_typer(environments.app, name="environment")
app.add_typer(workers.app, name="workers")
app.add_typer(schema.app, name="db")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; what a user can cause ends as one line on stderr.

    Exits with 0; with 2 for bad usage, an unusable setting or a value that the server refuses; with 75 where the
    league, its database or the store is away, so that the same command may do later; with 78 where no restart helps,
    as with the database of a newer version; and with 1 for any other error.
    """
    given = sys.argv[1:] if arguments is None else arguments
    app.rich_markup_mode = "markdown" if get_terminal_size().columns >= BOX_COLUMNS else None
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows no dash or call-sign gets a question mark
    try:
        _require_text(given)
        app(given)
    except LeagueError as error:
        _refuse(error)
    except ValidationError as error:
        if not _is_of_request(error):
            raise
        _refuse(InvalidRequestError.of_field(error.errors()[0], _HELP))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            _refuse_place(error)
        typer.echo(f"league: what was to be printed cannot be written: {error.strerror}; make room", err=True)
        sys.stdout = StringIO()  # leaving would try the full one again
        sys.exit(FAILURE)


def _require_text(arguments: Sequence[str]) -> None:
    """Refuse bytes that are no characters: nothing that a command asks or keeps could name them.

    Raises:
        ConfigurationError: An argument has some.
    """
    for argument in arguments:
        if not argument.isascii() and argument != argument.encode(errors="replace").decode():
            raise ConfigurationError(f"argument {argument!a:.120}", "it is not UTF-8", "write it in UTF-8")


def _refuse_place(error: OSError) -> NoReturn:
    """Say in one line what is wrong with a place that an option named; anything else is a defect, and goes on."""
    if error.filename is None or error.strerror is None:
        raise error
    _refuse(ConfigurationError(f"file {str(error.filename)!r:.120}", error.strerror, "name another place"))


def _refuse(error: LeagueError) -> NoReturn:
    typer.echo(f"league: {printable(_described(error))}", err=True)
    if isinstance(error, PartRefusedError):
        sys.exit(error.exit_status)
    sys.exit(next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), FAILURE))


def _is_of_request(error: ValidationError) -> bool:
    """Say whether what does not fit was to be sent to the server, and so was said by whoever runs the command."""
    kind = getattr(wire, error.title, None)
    return isinstance(kind, type) and issubclass(kind, wire.Request)


def _described(error: LeagueError) -> str:
    """Say what is wrong and what to do about it, in commands."""
    way_out = _WAYS_OUT.get(type(error), error.way_out)
    if "/docs" in way_out:
        way_out = _HELP
    return str(type(error)(error.value, error.rule, way_out))
