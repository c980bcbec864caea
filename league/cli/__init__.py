"""The `league` command: run a league, inspect it and manage its population."""

import errno
import sys
from collections.abc import Sequence
from io import StringIO, TextIOWrapper
from shutil import get_terminal_size
from typing import NoReturn

import typer
from pydantic import ValidationError

from arena.exit_status import BAD_CONFIGURATION, BAD_USAGE, FAILURE, TRY_LATER
from arena.lazy_group import LazyCommand, lazy_group
from arena.version import show_version
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
    UnknownLeaseError,
    UnknownPeriodError,
    UnknownPlayerError,
)

BOX_COLUMNS = 80
"""A narrower terminal gets help without boxes, which would truncate the names of options."""

_REMEDIES: dict[type[LeagueError], str] = {
    ChampionConflictError: "check `league champion` and try again",
    UnknownGateError: "`league gates` lists them all",
    UnknownLeaseError: "`league show PLAYER --json` names the leases of its latest matches",
    UnknownPeriodError: "`league log --periods` lists them",
    UnknownPlayerError: "`league players` lists them all",
}
"""Remedies as commands, for errors whose `way_out` names an HTTP call."""

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

_COMMANDS = {
    "up": LazyCommand(
        "league.cli.up.command:app",
        "Run a whole league on this machine: server, trainer, evaluator and live standings.",
    ),
    "serve": LazyCommand("league.cli.serve:app", "Run the league server."),
    "settings": LazyCommand("league.cli.serve:app", "List the server's settings with their values and defaults."),
    "standings": LazyCommand("league.cli.players:app", "Print the standings, now or after any past rating period."),
    "champion": LazyCommand("league.cli.players:app", "Show the champion of an environment, or all of its champions."),
    "players": LazyCommand("league.cli.players:app", "List players by id: learners, snapshots and baselines."),
    "show": LazyCommand(
        "league.cli.players:app", "Show one player: its latest ratings and matches, and its audit log."
    ),
    "log": LazyCommand("league.cli.audit:app", "Print the audit log, newest first: who changed what, when and why."),
    "learners": LazyCommand("league.cli.learners:app", "List learners with their roles, steps and resets."),
    "metrics": LazyCommand("league.cli.learners:app", "Show a learner's training metrics over its steps."),
    "opponents": LazyCommand(
        "league.cli.matchmaking:app",
        "Show a learner's opponent distribution: each opponent's probability and the rule behind it.",
    ),
    "lease": LazyCommand(
        "league.cli.matchmaking:app", "Show a lease, its result, and the distribution that its opponent was drawn from."
    ),
    "gate": LazyCommand("league.cli.gates:app", "Test whether a candidate is better than the champion."),
    "gates": LazyCommand("league.cli.gates:app", "List gates with their states, newest first."),
    "lineage": LazyCommand("league.cli.lineage:app", "Show a player's ancestors with their ratings and gates."),
    "fingerprint": LazyCommand(
        "league.cli.behaviour:app", "Compare how players behave: one player with all others, or two players."
    ),
    "promote": LazyCommand("league.cli.lifecycle:app", "Promote a candidate to commander."),
    "retire": LazyCommand("league.cli.lifecycle:app", "Retire a snapshot; its matches and ratings stay."),
    "reinstate": LazyCommand("league.cli.lifecycle:app", "Make a retired or quarantined snapshot a candidate again."),
    "quarantine": LazyCommand(
        "league.cli.lifecycle:app", "Quarantine a suspicious snapshot until you have examined it."
    ),
    "dismiss": LazyCommand("league.cli.lifecycle:app", "Dismiss false reports that a snapshot cannot be played."),
    "close-period": LazyCommand("league.cli.maintenance.rating_periods:app", "Close the rating period now."),
    "rebuild": LazyCommand(
        "league.cli.maintenance.rating_periods:app", "Recompute all ratings and payoffs from the match log."
    ),
    "check": LazyCommand("league.cli.maintenance.integrity:app", "Check the league for inconsistencies."),
    "gc": LazyCommand(
        "league.cli.maintenance.gc:app", "Delete checkpoints that no player uses, and unfinished uploads."
    ),
    "export": LazyCommand("league.cli.maintenance.transfer:app", "Export a whole league to one file."),
    "import": LazyCommand("league.cli.maintenance.transfer:app", "Import an exported league into an empty database."),
    "fork": LazyCommand(
        "league.cli.maintenance.fork:app", "Create a new league from this one, as it was after a rating period."
    ),
    "prune": LazyCommand(
        "league.cli.maintenance.retention:app",
        "Delete old leases without a result, refused results and old opponent records.",
    ),
    "superiority": LazyCommand(
        "league.cli.analysis:app", "Show the probability that each player is stronger than the next one."
    ),
    "regressions": LazyCommand(
        "league.cli.analysis:app", "List main learners that lose to snapshots that they used to beat."
    ),
    "retire-redundant": LazyCommand(
        "league.cli.lifecycle:app", "Retire snapshots that score like another snapshot that is no weaker."
    ),
    "replay": LazyCommand("league.cli.replays:app", "Download the recording of a match."),
    "token": LazyCommand("league.cli.maintenance.tokens:app", "Create, list, renew and revoke tokens."),
    "environment": LazyCommand("league.cli.maintenance.environments:app", "Create, list and delete environments."),
    "workers": LazyCommand("league.cli.workers:app", "List, quarantine, reinstate and command workers."),
    "db": LazyCommand("league.cli.maintenance.schema:app", "Upgrade or check the database schema."),
}
"""All commands in the order of `league --help`. Each help equals its function's docstring, which a test checks."""

app = typer.Typer(
    name="league",
    cls=lazy_group(_COMMANDS),
    help="A self-play league: its server, its population, its ratings.",
    epilog="Example: league up",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(show_version)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and print expected errors as one line on stderr.

    Exit statuses: 0 for success, 2 for bad usage, an invalid setting or a value that the server rejects, 75 if the
    league, its database or the store is unavailable and a retry may succeed, 78 if no retry can help, for example with
    a database of a newer version, and 1 for any other error.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    app.rich_markup_mode = "markdown" if get_terminal_size().columns >= BOX_COLUMNS else None
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
    remedy = _REMEDIES.get(type(error), error.way_out)
    if "/docs" in remedy:
        remedy = _HELP
    return str(type(error)(error.value, error.rule, remedy))
