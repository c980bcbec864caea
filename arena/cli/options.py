"""Arguments and options that several commands take."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from arena.policies.protocol import Policy

OWN_PLAYER_HELP = "A baseline of the environment, or the path of a checkpoint or of a run folder."
PLAYER_HELP = (
    "A baseline of the environment, the path of a checkpoint or of a run folder, or a policy from outside: "
    "MODULE:ATTRIBUTE, FILE.onnx, process:COMMAND or an http address (docs/guides/games/external-players.md)."
)
ANSWER_S = 10.0

EnvironmentName = Annotated[
    str,
    typer.Option("--environment", help="Environment. `arena environments` lists them. NAME:rounds=N plays N rounds."),
]
Matches = Annotated[
    int, typer.Option("--matches", min=1, help="Number of matches between two players. Sides swap in pairs.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed from which all other seeds are derived.")]
AnswerSeconds = Annotated[
    float,
    typer.Option("--timeout", min=0.001, help="Maximum time in seconds for a response of a process or server."),
]
Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--module",
        metavar="MODULE:CLASS",
        help="Your own network module, which checkpoints may use. It is code. May be repeated.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def trust(modules: list[str] | None) -> None:
    """Allow these network modules in checkpoints; imported here because it loads torch."""
    from arena.policies.nn.user_module import allow_modules

    allow_modules(modules or ())


@contextmanager
def open_players(environment: str, names: Sequence[str], answer_s: float) -> "Iterator[list[Policy]]":
    """Open the players of a command; the first few invalid actions of external ones are printed on stderr."""
    from arena.agents import Timeouts
    from arena.agents.policy import first_faults
    from arena.play import series

    on_fault = first_faults(lambda line: typer.echo(line, err=True))
    with series.open_players(environment, names, Timeouts(answer_s=answer_s), on_fault) as players:
        yield players
