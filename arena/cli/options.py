"""Arguments and options that several commands take."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from arena.agents import Timeouts

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


def patience(answer_s: float) -> "Timeouts":
    """Return the timeouts of external policies; imported here because it loads torch."""
    from arena.agents import Timeouts

    return Timeouts(answer_s=answer_s)


def fault_printer() -> Callable[[str], None]:
    """Return a function that prints the first few invalid actions of external policies on stderr."""
    from arena.agents.policy import first_faults

    return first_faults(lambda line: typer.echo(line, err=True))
