"""Arguments and options that several commands take."""

from typing import Annotated

import typer

PLAYER_HELP = "A baseline of the environment, or the path of a checkpoint or of a run folder."

EnvironmentName = Annotated[
    str, typer.Option("--environment", help="The game; `arena environments` lists them. NAME:rounds=N plays N rounds.")
]
Matches = Annotated[int, typer.Option("--matches", min=1, help="Matches between two players; sides swap in pairs.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="What all seeds are derived from.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
