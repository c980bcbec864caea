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
from trainer.cli.clients import answers, connect, make_console, make_retrying_client, names_league, version
from trainer.cli.options import SETTINGS_VARIABLE, ConfigFile, League, Modules, Overrides, Preset, RunFolder, Token
from trainer.config import loading as settings
from trainer.config.schema import EnvironmentSettings, LeagueSettings, TrainerConfig
from trainer.distributed.follower import Follower
from trainer.distributed.launch import process_group, rank_info, shard_config
from trainer.errors import ConfigError
from trainer.monitoring.loggers import MLflow, TensorBoard, Tracker, WeightsAndBiases, load_mlflow, load_wandb
from trainer.runtime.dry_run import RunEstimate, estimate_run, print_estimate
from trainer.runtime.session import TrainingSession
from trainer.runtime.torch_setup import configure_torch
from trainer.runtime.train import Trainer
from trainer.shutdown import ShutdownSignals

DRY_RUN_WIDTH = 100

app = typer.Typer()


_EXAMPLES = (
    "Example: trainer run --environment mech-duel --learner second --set ppo.normalized_ent_coef=0.02",
    "Example: trainer run --run var/runs/mech-duel/second --resume",
    "Example: torchrun --standalone --nproc-per-node 2 -m trainer run --set run.device=cuda",
)


@app.command(epilog="\n\n".join(_EXAMPLES))
def run(
    league: League = DEFAULT_URL,
    token: Token = None,
    environment: Annotated[
        str | None,
        typer.Option("--environment", help="Environment to train on. Its preset is the base of all settings."),
    ] = None,
    learner: Annotated[str | None, typer.Option("--learner", help="Name of the learner to train.")] = None,
    role: Annotated[str | None, typer.Option("--role", help="main, main_exploiter or league_exploiter.")] = None,
    run_folder: RunFolder = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    preset: Preset = None,
    total_timesteps: Annotated[
        int | None, typer.Option("--total-timesteps", min=0, help="Stop after this many environment steps.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --run with the settings in its folder.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Train by self-play, without a league. Only for a main.")
    ] = False,
    modules: Modules = None,
    wandb: Annotated[
        bool, typer.Option("--wandb", help="Also log to Weights & Biases. Requires echelon-league[track].")
    ] = False,
    mlflow: Annotated[
        bool, typer.Option("--mlflow", help="Also log to MLflow. Requires echelon-league[mlflow].")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved settings, sizes and memory, then stop.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with --dry-run.")] = False,
) -> None:
    """Train one learner, in a league or offline.

    The league is the one at --url or LEAGUE_URL, or the one that runs on the home folder. If you name none and no
    server responds at the default address, or with --offline, the learner trains offline against itself and its own
    snapshots. Start the command again with --url to publish these snapshots and to join the league.

    The same command continues from the saved state in the run folder and prints the settings that changed. With
    --resume, the settings of the run folder apply, changed by the options that you give.

    Later settings win: the environment's preset, --preset, --config, the variable TRAINER_SET (like --set, separated
    by spaces), --set. `trainer settings` lists all settings. Under torchrun, several GPUs train one learner
    (docs/guides/train/scale-out.md).
    """
    if as_json and not dry_run:
        raise ConfigError("--json prints the result of a dry run: give --dry-run too, or leave --json out")
    allow_modules(modules or ())
    options = {"league.learner": learner, "league.role": role, "run.total_timesteps": total_timesteps}
    named = [*os.environ.get(SETTINGS_VARIABLE, "").split(), *(overrides or [])]
    given = [*named, *(f"{key}={value}" for key, value in options.items() if value is not None)]
    saved = (
        load_settings(RunDirectory(run_folder or _default_folder(environment, config_file, given))) if resume else {}
    )
    config = settings.resolve(environment, config_file, given, saved, preset)
    declare(config.environment.name)  # before a folder is made for it
    info = rank_info(os.environ)
    own = shard_config(config, info)
    configure_torch(own.run)
    if dry_run:
        if not info.rank:
            _print_dry_run(config, estimate_run(own, info.world_size), as_json=as_json)
        return
    require_extra("train", "training")  # now: some packages are imported only once the league has answered
    if not info.rank:
        _require_packages(wandb=wandb, mlflow=mlflow)
    folder, console = (
        RunDirectory(run_folder or own_folder(runs_folder(), config.environment.name, config.league.learner)),
        make_console(),
    )
    signals = ShutdownSignals((lambda line: None) if info.rank else console.print)
    with (
        signals.entered() as run_context,
        nullcontext() if info.rank else folder.locked(),
        connect(league, token, config.league.timeout_s) as connection,
        process_group(info, own, version()) as ranks,
    ):
        client = make_retrying_client(connection, config.league.backoff_max_s, signals)
        cause = "--offline"
        if offline:
            _check_offline(config, folder)
        elif not info.rank and not names_league(league) and not _reason_for_league(config, folder):
            offline = not answers(connection, run_context) and not run_context.stopping()
            cause = f"no league answers at {league}"
        if info.rank:
            logging.basicConfig(level=logging.WARNING, format=f"rank {info.rank}: %(message)s", force=True)
            cache = folder.opponents / f"rank-{info.rank}"
            Follower(own, cache, client, ranks=ranks, version=version(), run_context=run_context).run()
            return
        if ranks.world_size > 1:
            console.print(f"{ranks.world_size} ranks learn as one, with {own.environment.num_envs} environments each")
        if offline:
            console.print(_offline_notice(cause, folder), "yellow")
        session = TrainingSession(
            config,
            folder,
            client,
            version=version(),
            console=console,
            run_context=run_context,
            ranks=ranks,
            own=own,
            offline=offline,
        )
        Trainer(session, lambda from_step: _loggers(folder, config, from_step, wandb=wandb, mlflow=mlflow)).run()


def _default_folder(environment: str | None, file: Path | None, given: list[str]) -> Path:
    """Return the run folder that belongs to the given names, before the other settings are known."""
    named = settings.merge(settings.read_toml(file) if file else {}, settings.parse_assignments(given))
    game = environment or str(named.get("environment", {}).get("name", EnvironmentSettings().name))
    return own_folder(runs_folder(), game, str(named.get("league", {}).get("learner", LeagueSettings().learner)))


def _check_offline(config: TrainerConfig, folder: RunDirectory) -> None:
    """Raise a `ConfigError` if a run cannot train offline."""
    reason = _reason_for_league(config, folder)
    if reason:
        raise ConfigError(f"--offline: {reason}")


def _reason_for_league(config: TrainerConfig, folder: RunDirectory) -> str:
    """Return why a run needs a league; empty if it can train by self-play."""
    if config.league.role != "main":
        return f"a {config.league.role} trains against the mains of a league; name the league, or train a main"
    if state.read_counters(folder.state).get("attachment"):
        return f"the run in {folder.path} belongs to a league; name the league, or start another run with --run"
    return ""


def _offline_notice(cause: str, folder: RunDirectory) -> str:
    return (
        f"{cause}: training offline by self-play; snapshots go to {folder.snapshots}, the newest weights to "
        f"{folder.policy}; to join a league, start this command again with --url URL"
    )


def _print_dry_run(config: TrainerConfig, estimate: RunEstimate, *, as_json: bool) -> None:
    role = {"name": config.league.role, **config.role_numbers}
    if as_json:
        typer.echo(json.dumps({"settings": config.model_dump(mode="json"), "role": role, **estimate.as_json()}))
        return
    typer.echo(settings.to_toml(config))
    typer.echo(f"role: {', '.join(f'{name} {value}' for name, value in role.items())}\n")
    print_estimate(estimate, Console(width=min(Console().width, DRY_RUN_WIDTH), markup=False, emoji=False))


def _require_packages(*, wandb: bool, mlflow: bool) -> None:
    if wandb:
        load_wandb()
    if mlflow:
        load_mlflow()


def _loggers(
    folder: RunDirectory, config: TrainerConfig, from_step: int, *, wandb: bool, mlflow: bool
) -> list[Tracker]:
    name, settings = config.league.learner, config.model_dump(mode="json")
    online: list[Tracker] = [WeightsAndBiases(folder.path, name, settings)] if wandb else []
    if mlflow:
        online.append(MLflow(folder.path, name, settings))
    return [*online, TensorBoard(folder.path / "tensorboard", from_step)]
