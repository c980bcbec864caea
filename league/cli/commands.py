"""All commands of `league` and its groups; each is imported when it runs."""

import typer

from arena.lazy_group import LazyCommand, lazy_group
from arena.version import show_version

_RUN, _INSPECT, _MANAGE, _DATA, _GROUPS = "Run", "Inspect", "Manage", "Data", "Groups of commands"

_COMMANDS = {
    "up": LazyCommand(
        "league.cli.up.command:app",
        "Run a whole league on this machine: server, trainer, evaluator and live standings.",
        _RUN,
    ),
    "demo": LazyCommand(
        "league.cli.demo.command:app", "Serve a league with a week of simulated history, to try the dashboard.", _RUN
    ),
    "serve": LazyCommand("league.cli.serve:app", "Run the league server.", _RUN),
    "settings": LazyCommand("league.cli.serve:app", "List the server's settings with their values and defaults.", _RUN),
    "standings": LazyCommand(
        "league.cli.players:app", "Print the standings, now or after any past rating period.", _INSPECT
    ),
    "players": LazyCommand(
        "league.cli.players:app", "List players by id: learners, snapshots and baselines.", _INSPECT
    ),
    "show": LazyCommand(
        "league.cli.players:app", "Show one player: its latest ratings and matches, and its audit log.", _INSPECT
    ),
    "promote": LazyCommand("league.cli.lifecycle:app", "Promote a candidate to commander.", _MANAGE),
    "retire": LazyCommand("league.cli.lifecycle:app", "Retire a snapshot. Its matches and ratings stay.", _MANAGE),
    "reinstate": LazyCommand(
        "league.cli.lifecycle:app", "Make a retired or quarantined snapshot a candidate again.", _MANAGE
    ),
    "quarantine": LazyCommand(
        "league.cli.lifecycle:app", "Quarantine a suspicious snapshot until you have examined it.", _MANAGE
    ),
    "close-period": LazyCommand("league.cli.maintenance.rating_periods:app", "Close the rating period now.", _MANAGE),
    "rebuild": LazyCommand(
        "league.cli.maintenance.rating_periods:app", "Recompute all ratings and payoffs from the match log.", _DATA
    ),
    "export": LazyCommand("league.cli.maintenance.transfer:app", "Export a whole league to one file.", _DATA),
    "import": LazyCommand(
        "league.cli.maintenance.transfer:app", "Import an exported league into an empty database.", _DATA
    ),
    "export-site": LazyCommand(
        "league.cli.maintenance.site:app",
        "Write a static copy of the dashboard, which browsers open from disk or from any web server.",
        _DATA,
    ),
    "player": LazyCommand(
        "league.cli.commands:player", "Analyze and annotate players, dismiss reports about them.", _GROUPS
    ),
    "learner": LazyCommand("league.cli.commands:learner", "List learners, their metrics, opponents and runs.", _GROUPS),
    "match": LazyCommand("league.cli.commands:match", "Explain a lease and download recordings.", _GROUPS),
    "gate": LazyCommand(
        "league.cli.gates:app", "Test whether a candidate is better than the champion (SPRT).", _GROUPS
    ),
    "worker": LazyCommand("league.cli.workers:app", "List, quarantine, reinstate and command workers.", _GROUPS),
    "token": LazyCommand("league.cli.maintenance.tokens:app", "Create, list, renew and revoke tokens.", _GROUPS),
    "environment": LazyCommand(
        "league.cli.commands:environment", "Create, list and delete environments, show their champions.", _GROUPS
    ),
    "db": LazyCommand("league.cli.maintenance.schema:app", "Upgrade or check the database schema.", _GROUPS),
    "admin": LazyCommand(
        "league.cli.commands:admin", "Check, clean up and fork a league, read its audit log.", _GROUPS
    ),
}
"""All commands in the order of `league --help`. Each help equals its function's docstring, which a test checks."""

_PLAYER = {
    "lineage": LazyCommand("league.cli.lineage:app", "Show a player's ancestors with their ratings and gates."),
    "compare": LazyCommand(
        "league.cli.behaviour:app", "Compare how players behave: one player with all others, or two players."
    ),
    "annotate": LazyCommand("league.cli.lifecycle:app", "Add or remove tags of a player or learner, or set its note."),
    "superiority": LazyCommand(
        "league.cli.analysis:app", "Show the probability that each player is stronger than the next one."
    ),
    "regressions": LazyCommand(
        "league.cli.analysis:app", "List main learners that lose to snapshots that they used to defeat."
    ),
    "retire-redundant": LazyCommand(
        "league.cli.lifecycle:app", "Retire snapshots that score like another snapshot that is no weaker."
    ),
    "dismiss-reports": LazyCommand(
        "league.cli.lifecycle:app", "Dismiss false reports that a snapshot cannot be played."
    ),
}

_LEARNER = {
    "list": LazyCommand("league.cli.learners:app", "List learners with their roles, steps and resets."),
    "metrics": LazyCommand("league.cli.learners:app", "Show a learner's training metrics over its steps."),
    "opponents": LazyCommand(
        "league.cli.matchmaking:app",
        "Show a learner's opponent distribution: each opponent's probability and the rule behind it.",
    ),
    "runs": LazyCommand("league.cli.runs:app", "List the training processes of learners, newest first."),
    "run": LazyCommand(
        "league.cli.runs:app", "Show a training process: its settings, seed, command, git revision and machine."
    ),
    "compare-runs": LazyCommand(
        "league.cli.runs:app", "Show the settings, versions and machine in which two training processes differ."
    ),
}

_MATCH = {
    "lease": LazyCommand(
        "league.cli.matchmaking:app", "Show a lease, its result, and the distribution that its opponent was drawn from."
    ),
    "replay": LazyCommand("league.cli.replays:app", "Download the recording of a match."),
}

_ENVIRONMENT = {
    "create": LazyCommand(
        "league.cli.maintenance.environments:app",
        "Create an environment, so that worker tokens may register learners of it.",
    ),
    "list": LazyCommand(
        "league.cli.maintenance.environments:app",
        "List all environments by name, with their numbers of learners, players and matches.",
    ),
    "delete": LazyCommand(
        "league.cli.maintenance.environments:app",
        "Delete an environment permanently with its learners, players, ratings and leases.",
    ),
    "champion": LazyCommand("league.cli.players:app", "Show the champion of an environment, or all of its champions."),
}

_ADMIN = {
    "log": LazyCommand(
        "league.cli.maintenance.audit:app",
        "Print the audit log, newest first: each change with its time, author and reason.",
    ),
    "check": LazyCommand("league.cli.maintenance.integrity:app", "Check the league for inconsistencies."),
    "gc": LazyCommand(
        "league.cli.maintenance.gc:app",
        "Delete checkpoints that no player uses, recordings without a match, and unfinished uploads.",
    ),
    "prune": LazyCommand(
        "league.cli.maintenance.retention:app",
        "Delete old leases without a result, rejected results and old opponent records.",
    ),
    "fork": LazyCommand(
        "league.cli.maintenance.fork:app", "Create a new league from this one, as it was after a rating period."
    ),
}

player = typer.Typer(cls=lazy_group(_PLAYER), help=_COMMANDS["player"].help, no_args_is_help=True)
learner = typer.Typer(cls=lazy_group(_LEARNER), help=_COMMANDS["learner"].help, no_args_is_help=True)
match = typer.Typer(cls=lazy_group(_MATCH), help=_COMMANDS["match"].help, no_args_is_help=True)
environment = typer.Typer(cls=lazy_group(_ENVIRONMENT), help=_COMMANDS["environment"].help, no_args_is_help=True)
admin = typer.Typer(cls=lazy_group(_ADMIN), help=_COMMANDS["admin"].help, no_args_is_help=True)
for group in (player, learner, match, environment, admin):
    group.callback()(lambda: None)

app = typer.Typer(
    name="league",
    cls=lazy_group(_COMMANDS),
    help="A self-play league: its server, its population, its ratings.",
    epilog="Example: league up",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.callback()(show_version)
