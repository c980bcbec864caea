"""The `arena` command: look at the games, play matches and tournaments, watch recordings, measure speed."""

import errno
import sys
from collections.abc import Sequence
from io import StringIO

import typer

from arena.cli import bench, environments, exploitability, match, replay, tournament, verify
from arena.errors import ArenaError, UnknownEnvironmentError, UnknownPolicyError
from arena.release import show_version

BAD_USAGE = 2

app = typer.Typer(
    name="arena",
    help="The games of the league: look at them, play matches and tournaments, watch recordings, measure speed.",
    epilog="Example: arena match lieutenant random --environment mech-duel --matches 200",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(show_version)
for part in (environments, match, tournament, replay, bench, exploitability, verify):
    app.registered_commands.extend(part.app.registered_commands)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; what a user can cause ends as one line on stderr.

    Exits with 0, with 2 for bad usage such as an unknown name, and with 1 for any other error.
    """
    try:
        app(arguments)
    except ArenaError as error:
        typer.echo(f"arena: {error}", err=True)
        sys.exit(BAD_USAGE if isinstance(error, UnknownEnvironmentError | UnknownPolicyError) else 1)
    except OSError as error:
        if error.strerror is None:
            raise
        place = "what was to be printed" if error.filename is None else f"file {str(error.filename)!r:.120}"
        way_out = "make room" if error.errno == errno.ENOSPC else "name another place"
        typer.echo(f"arena: {place}: {error.strerror}; {way_out}", err=True)
        sys.stdout = StringIO()  # leaving would try it again
        sys.exit(BAD_USAGE if error.errno == errno.ENAMETOOLONG else 1)
