"""`trainer run`."""

import json
import logging
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from arena.environments import declare
from arena.policies.modules import name_modules
from league.client import DEFAULT_URL
from trainer import config as settings
from trainer.cli.connection import connect, link_of, open_terminal, version
from trainer.cli.options import ConfigFile, League, Modules, Overrides, Token, runs
from trainer.errors import ConfigError
from trainer.folder import RunFolder
from trainer.following import Follower
from trainer.machine import prepare
from trainer.plan import plan
from trainer.plan import show as show_plan
from trainer.resuming import settings_of
from trainer.settings import LeagueSettings, TrainerConfig
from trainer.surroundings import Signals
from trainer.torchrun import joined, place_of, share_of
from trainer.tracking import TensorBoard, Tracker, WeightsAndBiases, load_wandb
from trainer.worker import TrainingWorker

DEFAULT_LEARNER = LeagueSettings().learner
PLAN_WIDTH = 100

SETTINGS_INTRODUCTION = (
    "Settings, from --config FILE and --set. An environment's preset changes some of these defaults: "
    "--dry-run shows what holds."
)
SETTINGS_HELP = f"{SETTINGS_INTRODUCTION}\n\n\b\n" + settings.describe().replace("\n\n", "\n\n\b\n")

app = typer.Typer()


@app.command(epilog=SETTINGS_HELP)
def run(
    league: League = DEFAULT_URL,
    token: Token = None,
    environment: Annotated[
        str | None, typer.Option("--environment", help="What to train on; its preset is the base of all settings.")
    ] = None,
    learner: Annotated[str | None, typer.Option("--learner", help="Name of the trained lineage.")] = None,
    role: Annotated[str | None, typer.Option("--role", help="main, main_exploiter or league_exploiter.")] = None,
    run_folder: Annotated[
        Path | None,
        typer.Option("--run", metavar="DIR", help="Run folder [default: $LEAGUE_HOME/runs/LEARNER, or var/runs/...]."),
    ] = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    total_steps: Annotated[
        int | None, typer.Option("--total-steps", min=0, help="Stop after so many environment steps.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --run, by the settings in its folder.")
    ] = False,
    modules: Modules = None,
    wandb: Annotated[
        bool, typer.Option("--wandb", help="Log to Weights & Biases too; needs echelon-league[track].")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved settings, sizes and memory, then stop.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with --dry-run.")] = False,
) -> None:
    """Train one learner against the league's population.

    The same command goes on where the run folder's saved state is, and names the settings that changed. With --resume
    the settings are those of the run folder, save what is given here, and a folder without a saved state is refused.

    Example: trainer run --environment mech-duel --learner second --set schedules.entropy=0.02

    Several GPUs learn as one under torchrun: see docs/multi_gpu.md.

    Example: trainer run --run var/runs/second --resume

    Example: torchrun --standalone --nproc-per-node 2 -m trainer run --environment mech-duel --set run.device=cuda
    """
    if as_json and not dry_run:
        raise ConfigError("--json prints what a run will take: give --dry-run too, or leave --json out")
    name_modules(modules or ())
    options = {"league.learner": learner, "league.role": role, "run.total_steps": total_steps}
    given = [*(overrides or []), *(f"{key}={value}" for key, value in options.items() if value is not None)]
    saved = settings_of(RunFolder(run_folder or runs() / (learner or DEFAULT_LEARNER))) if resume else {}
    config = settings.resolve(environment, config_file, given, saved)
    declare(config.environment.name)  # before a folder is made for it
    place = place_of(os.environ)
    own = share_of(config, place)
    prepare(own.run)
    if dry_run:
        if not place.number:
            _show_plan(config, own, place.count, as_json=as_json)
        return
    if wandb and not place.number:
        load_wandb()
    folder, terminal = RunFolder(run_folder or runs() / config.league.learner), open_terminal()
    signals = Signals(_say_nothing if place.number else terminal.say)
    with (
        signals.entered() as outside,
        nullcontext() if place.number else folder.taken(),
        connect(league, token, config.league.timeout_s) as client,
        joined(place, own, version()) as ranks,
    ):
        link = link_of(client, config.league.backoff_max_s, signals)
        if place.number:
            logging.basicConfig(level=logging.WARNING, format=f"rank {place.number}: %(message)s", force=True)
            cache = folder.opponents / f"rank-{place.number}"
            Follower(own, cache, link, ranks=ranks, version=version(), outside=outside).run()
            return
        if ranks.count > 1:
            terminal.say(f"{ranks.count} ranks learn as one, with {own.environment.num_envs} environments each")
        TrainingWorker(
            config,
            folder,
            link,
            trackers=lambda from_step: _trackers(folder, config, from_step, wandb=wandb),
            version=version(),
            terminal=terminal,
            outside=outside,
            ranks=ranks,
            own=own,
        ).run()


def _say_nothing(line: str) -> None:
    """Rank 0 speaks for all."""


def _show_plan(config: TrainerConfig, own: TrainerConfig, ranks: int, *, as_json: bool) -> None:
    planned = plan(own, ranks)
    role = {"name": config.league.role, **config.role_numbers}
    if as_json:
        typer.echo(json.dumps({"settings": config.model_dump(mode="json"), "role": role, **planned.as_json()}))
        return
    typer.echo(settings.to_toml(config))
    typer.echo(f"role: {', '.join(f'{name} {value}' for name, value in role.items())}\n")
    show_plan(planned, Console(width=min(Console().width, PLAN_WIDTH), markup=False, emoji=False))


def _trackers(folder: RunFolder, config: TrainerConfig, from_step: int, *, wandb: bool) -> list[Tracker]:
    trackers: list[Tracker] = []
    if wandb:
        trackers.append(WeightsAndBiases(folder.path, config.league.learner, config.model_dump(mode="json")))
    return [*trackers, TensorBoard(folder.path / "tensorboard", from_step)]
