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
from arena.extras import require_extra
from arena.policies.nn.user_module import allow_modules
from league.client import DEFAULT_URL
from league.home import run_folder as own_folder
from league.home import runs_folder
from trainer.checkpointing import format as state
from trainer.checkpointing.resume import load_settings
from trainer.checkpointing.run_directory import RunDirectory
from trainer.cli.clients import answers, connect, link_of, names_league, open_terminal, version
from trainer.cli.options import ConfigFile, League, Modules, Overrides, Preset, Token
from trainer.config import loading as settings
from trainer.config.schema import EnvironmentSettings, LeagueSettings, TrainerConfig
from trainer.distributed.follower import Follower
from trainer.distributed.launch import process_group, rank_info, shard_config
from trainer.errors import ConfigError
from trainer.monitoring.loggers import TensorBoard, Tracker, WeightsAndBiases, load_wandb
from trainer.runtime.dry_run import estimate_run, print_estimate
from trainer.runtime.torch_setup import configure_torch
from trainer.runtime.train import Trainer
from trainer.shutdown import ShutdownSignals

PLAN_WIDTH = 100

SETTINGS_VARIABLE = "TRAINER_SET"
"""Settings of every trainer that starts, also of those that `league up` starts: to shorten a trial, for example."""

SETTINGS_INTRODUCTION = (
    f"Settings, from --preset, then --config FILE, then the variable {SETTINGS_VARIABLE} (as --set, separated by "
    "spaces), then --set. "
    "An environment's preset changes some of these defaults: --dry-run shows what holds."
)
SETTINGS_HELP = f"{SETTINGS_INTRODUCTION}\n\n\b\n" + settings.settings_help().replace("\n\n", "\n\n\b\n")

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
        typer.Option(
            "--run", metavar="DIR", help="Run folder [default: runs/ENVIRONMENT/LEARNER in $LEAGUE_HOME, or in var]."
        ),
    ] = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    preset: Preset = None,
    total_timesteps: Annotated[
        int | None, typer.Option("--total-timesteps", min=0, help="Stop after so many environment steps.")
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
    """Train one learner against the league's population, or offline by self-play.

    A league is named by --league, by LEAGUE_URL, or by the address that a running server left in the home folder. If
    none is named and no server answers at the default address, the learner trains offline: against itself and its own
    snapshots, which stay in the run folder. Start the command again with --league URL to publish them and to join that
    league.

    The same command goes on where the run folder's saved state is, and names the settings that changed. With --resume
    the settings are those of the run folder, save what is given here, and a folder without a saved state is refused.

    Example: trainer run --environment mech-duel --learner second --set ppo.normalized_ent_coef=0.02

    Several GPUs learn as one under torchrun: see docs/multi_gpu.md.

    Example: trainer run --run var/runs/mech-duel/second --resume

    Example: trainer run --environment mech-company --preset gpu

    Example: torchrun --standalone --nproc-per-node 2 -m trainer run --environment mech-duel --set run.device=cuda
    """
    if as_json and not dry_run:
        raise ConfigError("--json prints what a run will take: give --dry-run too, or leave --json out")
    allow_modules(modules or ())
    options = {"league.learner": learner, "league.role": role, "run.total_timesteps": total_timesteps}
    named = [*os.environ.get(SETTINGS_VARIABLE, "").split(), *(overrides or [])]
    given = [*named, *(f"{key}={value}" for key, value in options.items() if value is not None)]
    saved = load_settings(RunDirectory(run_folder or _usual_folder(environment, config_file, given))) if resume else {}
    config = settings.resolve(environment, config_file, given, saved, preset)
    declare(config.environment.name)  # before a folder is made for it
    info = rank_info(os.environ)
    own = shard_config(config, info)
    configure_torch(own.run)
    if dry_run:
        if not info.rank:
            _show_plan(config, own, info.world_size, as_json=as_json)
        return
    require_extra("train", "training")  # now: some packages are imported only once the league has answered
    if wandb and not info.rank:
        load_wandb()
    folder, console = RunDirectory(run_folder or _folder_of(config)), open_terminal()
    signals = ShutdownSignals(_say_nothing if info.rank else console.print)
    with (
        signals.entered() as run_context,
        nullcontext() if info.rank else folder.locked(),
        connect(league, token, config.league.timeout_s) as client,
        process_group(info, own, version()) as ranks,
    ):
        link = link_of(client, config.league.backoff_max_s, signals)
        may_train_offline = not info.rank and not names_league(league) and _needs_no_league(config, folder)
        offline = may_train_offline and not answers(client, run_context) and not run_context.stopping()
        if info.rank:
            logging.basicConfig(level=logging.WARNING, format=f"rank {info.rank}: %(message)s", force=True)
            cache = folder.opponents / f"rank-{info.rank}"
            Follower(own, cache, link, ranks=ranks, version=version(), run_context=run_context).run()
            return
        if ranks.world_size > 1:
            console.print(f"{ranks.world_size} ranks learn as one, with {own.environment.num_envs} environments each")
        if offline:
            console.print(_offline_notice(league, folder), "yellow")
        Trainer(
            config,
            folder,
            link,
            trackers=lambda from_step: _trackers(folder, config, from_step, wandb=wandb),
            version=version(),
            console=console,
            run_context=run_context,
            ranks=ranks,
            own=own,
            offline=offline,
        ).run()


def _usual_folder(environment: str | None, file: Path | None, given: list[str]) -> Path:
    """Return the run folder that belongs to the given names, before the other settings are known."""
    named = settings.merge(settings.read_toml(file) if file else {}, settings.parse_assignments(given))
    game = environment or str(named.get("environment", {}).get("name", EnvironmentSettings().name))
    return own_folder(runs_folder(), game, str(named.get("league", {}).get("learner", LeagueSettings().learner)))


def _folder_of(config: TrainerConfig) -> Path:
    return own_folder(runs_folder(), config.environment.name, config.league.learner)


def _needs_no_league(config: TrainerConfig, folder: RunDirectory) -> bool:
    """Whether a run can train by self-play: exploiters need the mains of a league, and a member waits for its own."""
    return config.league.role == "main" and not state.read_counters(folder.state).get("attachment")


def _offline_notice(league: str, folder: RunDirectory) -> str:
    return (
        f"no league answers at {league}: training offline by self-play; snapshots go to {folder.snapshots}, the newest "
        f"weights to {folder.policy}; to join a league, start this command again with --league URL"
    )


def _say_nothing(line: str) -> None:
    """Rank 0 speaks for all."""


def _show_plan(config: TrainerConfig, own: TrainerConfig, ranks: int, *, as_json: bool) -> None:
    estimate = estimate_run(own, ranks)
    role = {"name": config.league.role, **config.role_numbers}
    if as_json:
        typer.echo(json.dumps({"settings": config.model_dump(mode="json"), "role": role, **estimate.as_json()}))
        return
    typer.echo(settings.to_toml(config))
    typer.echo(f"role: {', '.join(f'{name} {value}' for name, value in role.items())}\n")
    print_estimate(estimate, Console(width=min(Console().width, PLAN_WIDTH), markup=False, emoji=False))


def _trackers(folder: RunDirectory, config: TrainerConfig, from_step: int, *, wandb: bool) -> list[Tracker]:
    trackers: list[Tracker] = []
    if wandb:
        trackers.append(WeightsAndBiases(folder.path, config.league.learner, config.model_dump(mode="json")))
    return [*trackers, TensorBoard(folder.path / "tensorboard", from_step)]
