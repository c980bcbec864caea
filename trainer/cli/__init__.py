"""The `trainer` command: train a learner, play rating matches, benchmark, diagnose a run."""

import errno
import logging
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from arena.errors import ArenaError, MissingPackageError, NetworkModuleError, UnknownEnvironmentError
from arena.exit_status import BAD_CONFIGURATION, BAD_USAGE, FAILURE, TRY_LATER
from arena.extras import named_extra
from arena.help_format import markup_mode
from league.errors import (
    ConfigurationError,
    LeagueError,
    LeagueUnreachable,
    LearnerMismatchError,
    SignatureMismatchError,
)
from trainer.errors import ConfigError, NoRunError, StateError, TrainerError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_STATUSES: dict[type[Exception], int] = {
    ConfigError: BAD_USAGE,
    ConfigurationError: BAD_USAGE,
    NoRunError: BAD_USAGE,
    UnknownEnvironmentError: BAD_USAGE,
    LearnerMismatchError: BAD_CONFIGURATION,
    MissingPackageError: BAD_CONFIGURATION,
    NetworkModuleError: BAD_CONFIGURATION,
    SignatureMismatchError: BAD_CONFIGURATION,
    StateError: BAD_CONFIGURATION,
    LeagueUnreachable: TRY_LATER,
}
"""Exit status of each error; 1 for any other."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; errors that a user can cause end as one line on stderr.

    Exits with 0; with 2 after bad usage or an invalid setting; with 75 if no league answers, so that the same command
    may work later; with 78 if this installation, game or run folder cannot be used; and with 1 after other errors.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        from trainer.cli.commands import app  # here, so that a missing package ends as one line too

        app.rich_markup_mode = markup_mode()
        app(arguments)
    except (LeagueError, ArenaError, TrainerError) as error:
        _refuse(error)
    except ModuleNotFoundError as error:
        missing = named_extra(error, "training")
        if missing is None:
            raise
        _refuse(missing)
    except OSError as error:
        target = error.filename or "writing the run folder"
        remedy = "free the disk or choose another --run" if error.errno in FULL else "choose another --run"
        typer.echo(f"trainer: {target}: {error.strerror}; {remedy}", err=True)
        sys.exit(FAILURE)


def _refuse(error: LeagueError | ArenaError | TrainerError) -> NoReturn:
    typer.echo(f"trainer: {error}", err=True)
    sys.exit(next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), FAILURE))
