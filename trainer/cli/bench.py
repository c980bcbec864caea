"""`trainer bench`."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from trainer.cli.options import ConfigFile, Overrides, Preset
from trainer.config import loading as settings
from trainer.errors import ConfigError
from trainer.runtime.benchmark.bench import Bench
from trainer.runtime.benchmark.operation_counts import OperationCounts, count_operations
from trainer.runtime.benchmark.synthetic_env import SYNTHETIC
from trainer.runtime.torch_setup import configure_torch

ITERATIONS = 5

app = typer.Typer()


@app.command(epilog="Example: trainer bench --environment mech-company --opponents 16 --set environment.num_envs=256")
def bench(
    environment: Annotated[
        str, typer.Option("--environment", help="Environment. `synthetic` takes almost no time per step.")
    ] = SYNTHETIC,
    consistency: Annotated[
        bool,
        typer.Option("--consistency", help="Learning rate 0: print the largest |ratio - 1| of every chunk instead."),
    ] = False,
    count: Annotated[
        bool,
        typer.Option(
            "--count",
            help="Count operations and host synchronisations per decision and per optimiser step instead, with their "
            "places in the code. On a CPU the code of a GPU runs.",
        ),
    ] = False,
    opponents: Annotated[
        int | None,
        typer.Option(
            "--opponents",
            min=0,
            help="Number of different frozen opponents.",
            show_default="the learner's live weights",
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations", min=1, help="Iterations. The command prints medians.", show_default=str(ITERATIONS)
        ),
    ] = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    preset: Preset = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the speed of rollouts and updates.

    It also measures the parts of a rollout, and needs no league. If several threads step environments, the seconds of
    arena, acting and opponents are their mean.
    """
    for option, value, other, idle in (
        ("--iterations", iterations, "--consistency", consistency),
        ("--iterations", iterations, "--count", count),
        ("--consistency", consistency or None, "--count", count),
        (
            "--opponents",
            opponents,
            f"--environment {SYNTHETIC}, which has no opponents that act",
            environment == SYNTHETIC,
        ),
    ):
        if value is not None and idle:
            shown = option if value is True else f"{option} {value}"
            raise ConfigError(f"{shown} changes nothing with {other}: leave one of them out")
    still = ["optimizer.learning_rate=0.0", "optimizer.learning_rate_final=0.0"] if consistency else []
    config = settings.resolve(environment, config_file, [*(overrides or []), *still], overlay=preset)
    configure_torch(config.run)
    if count:
        _print_counts(as_json, environment, count_operations(config, opponents=opponents or 0))
        return
    bench = Bench(config, opponents=opponents or 0)
    if consistency:
        errors = bench.ratio_errors()
        _print(as_json, {"environment": environment, "ratio_errors": errors, "largest": max(errors)})
        return
    measured = bench.measure(iterations or ITERATIONS)
    sizes = {
        "environment": environment,
        "num_envs": config.environment.num_envs,
        "threads": config.run.threads,
        "opponents": opponents or 0,
        "self_play_envs": bench.self_play_envs,
    }
    _print(as_json, {**sizes, **asdict(measured)})


def _print_counts(as_json: bool, environment: str, counts: OperationCounts) -> None:
    values = {name: value for name, value in asdict(counts).items() if name != "places"}
    _print(as_json, {"environment": environment, **values})
    if as_json:
        return
    for name, places in counts.places.items():
        typer.echo(f"\n{name}, by place")
        for place, number in places.items():
            typer.echo(f"{number:>8.2f}  {place}")


def _print(as_json: bool, values: dict[str, object]) -> None:
    if as_json:
        typer.echo(json.dumps(values))
        return
    for name, value in values.items():
        typer.echo(f"{name}: {_shown(value)}")


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
