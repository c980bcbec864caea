"""The commands of `trainer`; importing them loads torch and the rest of the extra `train`."""

import typer

from arena.release import show_version
from trainer.cli import bench, doctor, enter, evaluate, fleet, run

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
