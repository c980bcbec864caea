"""The `arena` command: list games, play matches and tournaments, show recordings, measure speed."""

import errno
import sys
from collections.abc import Sequence
from io import StringIO
from typing import NoReturn

import typer

from arena.cli import bench, depth, environments, exploitability, match, replay, report, tournament
from arena.cli import check_env as verify
from arena.errors import ArenaError, MissingPackageError, UnknownEnvironmentError, UnknownPolicyError
from arena.exit_status import BAD_CONFIGURATION, BAD_USAGE, FAILURE
from arena.extras import named_extra
from arena.help_format import markup_mode
from arena.version import show_version

_STATUSES: dict[type[ArenaError], int] = {
    MissingPackageError: BAD_CONFIGURATION,
    UnknownEnvironmentError: BAD_USAGE,
    UnknownPolicyError: BAD_USAGE,
}

app = typer.Typer(
    name="arena",
    help="The games of the league: look at them, play matches and tournaments, watch recordings, measure speed.",
    epilog="Example: arena match lieutenant random --environment mech-duel --matches 200",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.callback()(show_version)
for part in (environments, match, tournament, report, replay, bench, exploitability, depth, verify):
    app.registered_commands.extend(part.app.registered_commands)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; errors that a user can cause are printed as one line on stderr.

    Exits with 0, with 2 for bad usage such as an unknown name, with 78 if a package is not installed, and with 1 for
    any other error.
    """
    app.rich_markup_mode = markup_mode()
    try:
        app(arguments)
    except ArenaError as error:
        _refuse(error)
    except ModuleNotFoundError as error:
        missing = named_extra(error, "this command")
        if missing is None:
            raise
        _refuse(missing)
    except OSError as error:
        if error.strerror is None:
            raise
        target = "what was to be printed" if error.filename is None else f"file {str(error.filename)!r:.120}"
        remedy = "make room" if error.errno == errno.ENOSPC else "give another path"
        typer.echo(f"arena: {target}: {error.strerror}; {remedy}", err=True)
        sys.stdout = StringIO()  # leaving would try it again
        sys.exit(BAD_USAGE if error.errno == errno.ENAMETOOLONG else FAILURE)


def _refuse(error: ArenaError) -> NoReturn:
    typer.echo(f"arena: {error}", err=True)
    sys.exit(next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), FAILURE))
