"""The commands of `trainer`; each is imported, with torch if it needs it, when it runs."""

import typer

from arena.lazy_group import LazyCommand, lazy_group
from arena.version import show_version

COMMANDS = {
    "run": LazyCommand("trainer.cli.run:app", "Train one learner, in a league or offline."),
    "settings": LazyCommand("trainer.cli.settings:app", "List the settings of a run with their values and defaults."),
    "evaluate": LazyCommand("trainer.cli.evaluate:app", "Play rating matches for the league."),
    "fleet": LazyCommand("trainer.cli.fleet:app", "Run trainers and evaluators on a Ray cluster."),
    "enter": LazyCommand("trainer.cli.enter:app", "Enter your own policy as a rated player."),
    "bench": LazyCommand("trainer.cli.bench:app", "Measure the speed of rollouts and updates."),
    "doctor": LazyCommand("trainer.cli.doctor:app", "Report the problems of a run."),
}
"""All commands in the order of `trainer --help`. A test compares their helps with those of their functions."""

app = typer.Typer(
    name="trainer",
    cls=lazy_group(COMMANDS),
    help="Recurrent PPO for a self-play league.",
    epilog="Example: trainer run --environment mech-duel",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.callback()(show_version)
