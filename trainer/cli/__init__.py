"""The `trainer` command: train a learner, play rating matches, measure, explain a run."""

import errno
import logging
import sys
from collections.abc import Sequence

import typer

from arena.errors import ArenaError, UnknownEnvironmentError
from arena.release import show_version
from league.errors import ConfigurationError, LeagueError
from trainer.cli import bench, doctor, enter, evaluate, fleet, run
from trainer.errors import ConfigError, NoRunError, TrainerError

BAD_USAGE = 2
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

app = typer.Typer(
    name="trainer",
    help="Recurrent PPO for a self-play league.",
    epilog="Example: trainer run --environment mech-duel",
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(show_version)
for part in (run, evaluate, fleet, enter, bench, doctor):
    app.registered_commands.extend(part.app.registered_commands)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; what a user can cause ends as one line on stderr.

    Exits with 0, with 2 for bad usage or an unusable setting, and with 1 for any other error.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        app(arguments)
    except (LeagueError, ArenaError, TrainerError) as error:
        typer.echo(f"trainer: {error}", err=True)
        unusable = ConfigError, ConfigurationError, NoRunError, UnknownEnvironmentError
        sys.exit(BAD_USAGE if isinstance(error, unusable) else 1)
    except OSError as error:
        place = error.filename or "writing the run folder"
        way_out = "free the disk or choose another --run" if error.errno in FULL else "choose another --run"
        typer.echo(f"trainer: {place}: {error.strerror}; {way_out}", err=True)
        sys.exit(1)
