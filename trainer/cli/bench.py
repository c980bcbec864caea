"""`trainer bench`."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from trainer.cli.options import ConfigFile, Overrides, Preset
from trainer.config import loading as settings
from trainer.errors import ConfigError
from trainer.runtime.benchmark.bench import Bench
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
        (
            "--opponents",
            opponents,
            f"--environment {SYNTHETIC}, which has no opponents that act",
            environment == SYNTHETIC,
        ),
    ):
        if value is not None and idle:
            raise ConfigError(f"{option} {value} changes nothing with {other}: leave one of them out")
    still = ["optimizer.learning_rate=0.0", "optimizer.learning_rate_final=0.0"] if consistency else []
    config = settings.resolve(environment, config_file, [*(overrides or []), *still], overlay=preset)
    configure_torch(config.run)
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
