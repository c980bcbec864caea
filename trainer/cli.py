"""The `trainer` command: train a learner, play rating matches, measure."""

import errno
import json
import logging
import os
import random
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from arena.environments import declare, make, names
from arena.errors import ArenaError, UnknownEnvironmentError
from league.client import DEFAULT_URL, LeagueClient, patience_of
from league.errors import ConfigurationError, LeagueError
from trainer import config as settings
from trainer.bench import Bench, acting_steps_per_s
from trainer.doctor import as_json as diagnosis_as_json
from trainer.doctor import diagnose, show, write
from trainer.errors import ConfigError, NoRunError, TrainerError
from trainer.evaluator import EvaluationWorker, Pace, RatingMembership
from trainer.folder import RunFolder
from trainer.link import Link
from trainer.machine import prepare
from trainer.opponents import DiskCache, OpponentPool
from trainer.plan import plan
from trainer.plan import show as show_plan
from trainer.resuming import settings_of
from trainer.settings import LeagueSettings, TrainerConfig
from trainer.settings.run import WORKER_NAME_MAX, check_name
from trainer.spool import Spool
from trainer.surroundings import Signals
from trainer.synthetic import SYNTHETIC, WorkItem
from trainer.terminal import Terminal
from trainer.tracking import TensorBoard, Tracker, WeightsAndBiases, load_wandb
from trainer.worker import TrainingWorker

BAD_USAGE = 2
DEFAULT_LEARNER = LeagueSettings().learner
PLAN_WIDTH = 100
ITERATIONS = 5
"""Of `trainer bench`."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
EVALUATOR_TIMEOUT_S = 30.0
EVALUATOR_BACKOFF_S = 30.0

SETTINGS_INTRODUCTION = (
    "Settings, from --config FILE and --set. An environment's preset changes some of these defaults: "
    "--dry-run shows what holds."
)
SETTINGS_HELP = f"{SETTINGS_INTRODUCTION}\n\n\b\n" + settings.describe().replace("\n\n", "\n\n\b\n")

app = typer.Typer(
    name="trainer",
    help="Recurrent PPO for a self-play league.",
    epilog="Example: trainer run --environment mech-duel",
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

League = Annotated[str, typer.Option("--league", envvar="LEAGUE_URL", help="Where the league server listens.")]
Token = Annotated[
    str | None,
    typer.Option("--token", envvar="LEAGUE_TOKEN", show_envvar=True, help="Bearer token; an open league needs none."),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file with sections as listed below.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; may be repeated, wins over --config."),
]


def _worker_name(name: str) -> str:
    try:
        return check_name(name, WORKER_NAME_MAX)
    except ValueError as error:
        raise typer.BadParameter(f"{name!r} is no name: {error}") from error


@app.command(epilog=SETTINGS_HELP)
def run(
    league: League = DEFAULT_URL,
    token: Token = None,
    environment: Annotated[
        str | None, typer.Option("--environment", help="What to train on; its preset is the base of all settings.")
    ] = None,
    learner: Annotated[str | None, typer.Option("--learner", help="Name of the trained lineage.")] = None,
    role: Annotated[str | None, typer.Option("--role", help="Label: main, main_exploiter or league_exploiter.")] = None,
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

    Example: trainer run --run var/runs/second --resume
    """
    if as_json and not dry_run:
        raise ConfigError("--json prints what a run will take: give --dry-run too, or leave --json out")
    options = {"league.learner": learner, "league.role": role, "run.total_steps": total_steps}
    given = [*(overrides or []), *(f"{key}={value}" for key, value in options.items() if value is not None)]
    saved = settings_of(RunFolder(run_folder or _home() / "runs" / (learner or DEFAULT_LEARNER))) if resume else {}
    config = settings.resolve(environment, config_file, given, saved)
    declare(config.environment.name)  # before a folder is made for it
    prepare(config.run)
    if dry_run:
        _show_plan(config, as_json=as_json)
        return
    if wandb:
        load_wandb()
    folder, terminal = RunFolder(run_folder or _home() / "runs" / config.league.learner), _terminal()
    signals = Signals(terminal.say)
    with signals.entered() as outside, folder.taken(), _connect(league, token, config.league.timeout_s) as client:
        link = _link(client, config.league.backoff_max_s, signals)
        TrainingWorker(
            config,
            folder,
            link,
            trackers=lambda: _trackers(folder, config, wandb=wandb),
            version=_version(),
            terminal=terminal,
            outside=outside,
        ).run()


@app.command()
def evaluate(
    league: League = DEFAULT_URL,
    token: Token = None,
    environment: Annotated[
        list[str] | None,
        typer.Option("--environment", help="What to play; may be repeated [default: all that are installed]."),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", callback=_worker_name, help="How the league calls this worker.")
    ] = "evaluator",
    run_folder: Annotated[
        Path | None,
        typer.Option("--run", metavar="DIR", help="Run folder [default: $LEAGUE_HOME/runs/NAME, or var/runs/NAME]."),
    ] = None,
    duty: Annotated[float, typer.Option("--duty", min=0.01, max=1.0, help="Share of one core to spend.")] = 0.25,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Matches per pair, side and lease.")] = 8,
    disk_cache_bytes: Annotated[int, typer.Option("--disk-cache-bytes", min=0)] = 2 * 2**30,
    memory_cache_bytes: Annotated[int, typer.Option("--memory-cache-bytes", min=0)] = 256 * 2**20,
) -> None:
    """Play the rating matches that the league asks for.

    Example: trainer evaluate --environment mech-duel --duty 1
    """
    torch.set_num_threads(1)
    terminal = _terminal()
    signals = Signals(terminal.say)
    specs = [make(each, num_envs=1).spec for each in environment or names()]
    folder = RunFolder(run_folder or _home() / "runs" / name)
    rng = random.Random()  # noqa: S311  jitter
    with signals.entered() as outside, folder.taken(), _connect(league, token, EVALUATOR_TIMEOUT_S) as client:
        link = _link(client, EVALUATOR_BACKOFF_S, signals)
        cache = DiskCache(folder.opponents, disk_cache_bytes)
        pools = {
            spec.name: OpponentPool(
                spec,
                lambda sha256: link.attempt(lambda client: client.download(sha256)),
                cache,
                memory_limit_bytes=memory_cache_bytes,
                device="cpu",
            )
            for spec in specs
        }
        membership = RatingMembership(link, specs, name=name, version=_version())
        spool = Spool(folder.spool)
        terminal.say(f"playing rating matches of {', '.join(pools)} at {league}")
        pace = Pace(budget, duty)
        EvaluationWorker(membership, pools, spool, pace, terminal=terminal, outside=outside, rng=rng).run()


@app.command()
def bench(
    environment: Annotated[
        str, typer.Option("--environment", help="What to step; `synthetic` costs almost nothing.")
    ] = SYNTHETIC,
    consistency: Annotated[
        bool,
        typer.Option("--consistency", help="Learning rate 0: print the largest |ratio - 1| of every chunk instead."),
    ] = False,
    opponents: Annotated[
        int | None,
        typer.Option("--opponents", min=0, help="Different frozen opponents [default: the learner's live weights]."),
    ] = None,
    acting: Annotated[
        int | None,
        typer.Option("--acting", metavar="ROWS", min=1, help="Print decisions a second on so many rows alone instead."),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", min=1, help=f"Iterations; medians are printed [default: {ITERATIONS}]."),
    ] = None,
    end_chance: Annotated[
        float | None,
        typer.Option(
            "--end-chance",
            min=0.0,
            max=1.0,
            help=f"Chance that a synthetic episode ends at a step [default: {WorkItem.end_chance}].",
        ),
    ] = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure rollout and update, and who spends the rollout, without a league.

    Of several threads that step environments side by side, seconds of arena, acting and opponents are means.

    Example: trainer bench --environment mech-company --opponents 16 --set environment.num_envs=256
    """
    synthetic = environment == SYNTHETIC
    stepped = acting is None and not synthetic
    _refuse_idle(
        ("--acting", acting, "--consistency", consistency),
        ("--iterations", iterations, "--consistency", consistency),
        ("--opponents", opponents, "--acting", acting is not None),
        ("--opponents", opponents, f"--environment {SYNTHETIC}, whose other side never acts", synthetic),
        ("--end-chance", end_chance, f"--environment {environment}, which ends its own matches", stepped),
    )
    still = ["schedules.learning_rate=0.0", "schedules.learning_rate_final=0.0"] if consistency else []
    config = settings.resolve(environment, config_file, [*(overrides or []), *still])
    prepare(config.run)
    work = WorkItem() if end_chance is None else WorkItem(end_chance=end_chance)
    if acting is not None:
        steps_per_s = acting_steps_per_s(config, work, acting, iterations or ITERATIONS)
        _print(as_json, {"rows": acting, "threads": config.run.threads, "acting_steps_per_s": steps_per_s})
        return
    item = Bench(config, work, opponents=opponents or 0)
    if consistency:
        errors = item.ratio_errors()
        _print(as_json, {"environment": environment, "ratio_errors": errors, "largest": max(errors)})
        return
    measured = item.measure(iterations or ITERATIONS)
    _print(
        as_json,
        {
            "environment": environment,
            "num_envs": config.environment.num_envs,
            "threads": config.run.threads,
            "opponents": opponents or 0,
            "self_play_envs": item.self_play_envs,
            "rollout_s": measured.rollout_s,
            "arena_s": measured.arena_s,
            "acting_s": measured.acting_s,
            "opponents_s": measured.opponents_s,
            "update_s": measured.update_s,
            "env_steps_per_s": measured.steps_per_s,
            "agent_steps_per_s": measured.agent_steps_per_s,
            "decisions_per_s": measured.decisions_per_s,
            "resident_bytes": measured.resident_bytes,
        },
    )


@app.command()
def doctor(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder of `trainer run`, running or finished.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the report too, as .html or .svg.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain a run: what went wrong, when, and what to try.

    Exits with 0 where there is nothing but hints, with 1 where something was wrong, with 2 where RUN is no run folder.

    Example: trainer doctor var/runs/main --out report.html
    """
    diagnosis = diagnose(run_folder)
    if out is not None:
        write(diagnosis, out)
    if as_json:
        typer.echo(json.dumps(diagnosis_as_json(diagnosis)))
    else:
        show(diagnosis, Console())
    raise typer.Exit(0 if diagnosis.healthy else 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; what a user can cause ends as one line on stderr.

    Exits with 0, with 2 for bad usage or an unusable setting, and with 1 for any other error.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        app(arguments)
    except (LeagueError, ArenaError, TrainerError) as error:
        typer.echo(f"trainer: {error}", err=True)
        unusable = ConfigError, ConfigurationError, NoRunError, UnknownEnvironmentError
        sys.exit(BAD_USAGE if isinstance(error, unusable) else 1)
    except OSError as error:
        place = error.filename or "writing the run folder"
        way_out = "free the disk or choose another --run" if error.errno in FULL else "choose another --run"
        typer.echo(f"trainer: {place}: {error.strerror}; {way_out}", err=True)
        sys.exit(1)


def _refuse_idle(*pairs: tuple[str, float | None, str, bool]) -> None:
    """Refuse options that would change nothing beside others: an option and its value, and what it would be idle with.

    Raises:
        ConfigError: There is such a pair.
    """
    for idle, given, other, beside in pairs:
        if given is not None and beside:
            raise ConfigError(f"{idle} {given} changes nothing with {other}: leave one of them out")


def _show_plan(config: TrainerConfig, *, as_json: bool) -> None:
    planned = plan(config)
    if as_json:
        typer.echo(json.dumps({"settings": config.model_dump(mode="json"), **planned.as_json()}))
        return
    typer.echo(settings.to_toml(config))
    show_plan(planned, Console(width=min(Console().width, PLAN_WIDTH)))


def _trackers(folder: RunFolder, config: TrainerConfig, *, wandb: bool) -> list[Tracker]:
    trackers: list[Tracker] = []
    if wandb:
        trackers.append(WeightsAndBiases(folder.path, config.league.learner, config.model_dump(mode="json")))
    return [*trackers, TensorBoard(folder.path / "tensorboard")]


def _print(as_json: bool, values: dict[str, object]) -> None:
    if as_json:
        typer.echo(json.dumps(values))
        return
    for name, value in values.items():
        typer.echo(f"{name}: {value:,.6g}" if isinstance(value, float) else f"{name}: {value}")


def _terminal() -> Terminal:
    return Terminal(Console(soft_wrap=True))


def _connect(league: str, token: str | None, timeout_s: float) -> LeagueClient:
    if not league.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{league!r} is no http:// or https:// address; say for example {DEFAULT_URL}")
    return LeagueClient(league, token=token or None, timeout_s=timeout_s, patience=patience_of(0.0))


def _link(client: LeagueClient, backoff_max_s: float, signals: Signals) -> Link:
    rng = random.Random()  # noqa: S311  jitter
    return Link(client, clock=time.monotonic, rng=rng, backoff_max_s=backoff_max_s, calling=signals.calling)


def _home() -> Path:
    return Path(os.environ.get("LEAGUE_HOME", "var"))


def _version() -> str:
    return metadata.version("echelon-league")
