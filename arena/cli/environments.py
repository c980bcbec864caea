"""`arena environments`."""

import math
from collections import Counter
from functools import partial
from typing import Any

import typer
from rich.text import Text

from arena.cli.options import AsJson
from arena.cli.output import game_stdout_to_stderr, make_table, print_json, stdout
from arena.environments import EnvironmentSpec, ObservationBlock, baselines, declare_all, plugin_baselines
from arena.environments.registry import Baseline

app = typer.Typer()


@app.command(epilog="Example: arena environments --json")
def environments(as_json: AsJson = False) -> None:
    """List installed environments: teams, observation blocks, action heads, baselines, length and signature.

    You can also use any game of a library (openspiel:, pettingzoo:, mpe2:, magent2:, pgx:, gymnax:, jaxmarl:) and your
    own game as MODULE:CALLABLE. NAME:rounds=N is a match of N rounds.
    """
    with game_stdout_to_stderr():
        specs = list(declare_all(leave_out=partial(typer.echo, err=True)))
    if as_json:
        print_json({"items": [_describe(spec) for spec in specs], "next_cursor": None})
        return
    table = make_table("environment", "teams", "observation", "actions", "baselines")
    table.show_lines, table.columns[0].no_wrap = True, True
    for spec in specs:
        unit = "decision" if spec.max_decisions == 1 else "decisions"
        details = spec.signature, f"{spec.max_decisions} {unit}", *_write_kind(spec)
        table.add_row(
            Text.assemble((spec.name, "bold"), *(f"\n{line}" for line in details)),
            _write_teams(spec),
            "\n".join(f"{block.name} {_write_shape(block)}" for block in spec.observation),
            "\n".join(f"{head.name} {head.kind} {head.size}{' masked' * head.masked}" for head in spec.heads),
            "\n".join(f"{each.name} {each.rating:.0f}" for each in _players(spec)),
        )
    stdout().print(table)


def _describe(spec: EnvironmentSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "agents_per_side": spec.agents_per_side,
        "roles": spec.roles,
        **spec.describe_spaces(),
        "max_decisions": spec.max_decisions,
        "turn_based": spec.turn_based,
        "reproducible": spec.reproducible,
        "zero_sum": spec.zero_sum,
        "chance": spec.chance,
        "reasons": spec.reasons,
        "signature": spec.signature,
        "baselines": [{"name": each.name, "rating": each.rating} for each in _players(spec)],
    }


def _players(spec: EnvironmentSpec) -> tuple[Baseline, ...]:
    """All scripted players of a game."""
    return (*baselines(spec.name), *plugin_baselines(spec.name))


def _write_teams(spec: EnvironmentSpec) -> str:
    """Return the numbers of agents per side, and their roles."""
    lines = [" v ".join(str(agents) for agents in spec.agents_per_side)]
    home, away = (Counter(spec.roles[spec.side(away=away)]) for away in (False, True))
    lines += [f"{count} {role}" for role, count in home.items()]
    if away != home:
        lines += ["v", *(f"{count} {role}" for role, count in away.items())]
    return "\n".join(lines)


def _write_kind(spec: EnvironmentSpec) -> list[str]:
    """Return the declared properties of the game."""
    return [*(["zero-sum"] if spec.zero_sum else []), *(["no chance"] if spec.chance is False else [])]


def _write_shape(block: ObservationBlock) -> str:
    shape = "x".join(str(size) for size in block.shape)
    if math.isinf(block.low) and math.isinf(block.high):
        return shape
    return f"{shape} [{block.low:g},{block.high:g}]"
