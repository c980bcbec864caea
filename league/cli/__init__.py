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
from arena.lazy_group import LazyCommand, lazy_group
from arena.release import show_version
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
    UnusableInstallationError: BAD_CONFIGURATION,
}
"""What a command exits with because of an error; with 1 for any other."""

_HELP = "`league COMMAND --help` says what it takes"

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
    "evaluate-matchmaking": LazyCommand(
        "league.cli.matchmaking:app", "Estimate how a learner would have scored under another matchmaking rule."
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
        "league.cli.redundancy:app", "Retire snapshots that score like another snapshot that is no weaker."
    ),
    "replay": LazyCommand("league.cli.replays:app", "Download the recording of a match."),
    "token": LazyCommand("league.cli.maintenance.tokens:app", "Create, list, renew and revoke tokens."),
    "environment": LazyCommand("league.cli.maintenance.environments:app", "Create, list and delete environments."),
    "workers": LazyCommand("league.cli.workers:app", "List, quarantine, reinstate and command workers."),
    "db": LazyCommand("league.cli.maintenance.schema:app", "Upgrade or check the database schema."),
}
"""All commands in the order of `league --help`. Their helps are those of their functions, which a test compares."""

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
    from league.cli.output.grid import printable

    typer.echo(f"league: {printable(_described(error))}", err=True)
    if isinstance(error, PartRefusedError):
        sys.exit(error.exit_status)
    sys.exit(next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), FAILURE))


def _is_of_request(error: ValidationError) -> bool:
    """Say whether what does not fit was to be sent to the server, and so was said by whoever runs the command."""
    from league import wire

    kind = getattr(wire, error.title, None)
    return isinstance(kind, type) and issubclass(kind, wire.Request)


def _described(error: LeagueError) -> str:
    """Say what is wrong and what to do about it, in commands."""
    way_out = _WAYS_OUT.get(type(error), error.way_out)
    if "/docs" in way_out:
        way_out = _HELP
    return str(type(error)(error.value, error.rule, way_out))
