"""`trainer evaluate`."""

import random
from pathlib import Path
from typing import Annotated

import torch
import typer

from arena.environments import declare, declare_all
from arena.policies.nn.user_module import allow_modules
from league.client import DEFAULT_URL
from league.home import evaluator_folder, home_folder
from trainer.checkpointing.run_directory import RunDirectory
from trainer.cli.clients import connect, link_of, open_terminal, version
from trainer.cli.options import DiskCacheBytes, League, MemoryCacheBytes, Modules, Token
from trainer.config.loading import resolve
from trainer.config.runtime import WORKER_NAME_MAX, check_name
from trainer.evaluation.env_cache import EnvironmentCache
from trainer.evaluation.evaluator import EvaluationBudget, EvaluationWorker
from trainer.evaluation.replay_upload import ReplayUploader
from trainer.evaluation.session import EvaluatorSession
from trainer.league_client.result_spool import ResultSpool
from trainer.opponents.checkpoint_cache import CheckpointCache
from trainer.opponents.pool import OpponentPool
from trainer.shutdown import ShutdownSignals

EVALUATOR_TIMEOUT_S = 10.0
EVALUATOR_BACKOFF_S = 30.0

app = typer.Typer()


def _worker_name(name: str) -> str:
    try:
        return check_name(name, WORKER_NAME_MAX)
    except ValueError as error:
        raise typer.BadParameter(f"{name!r} is no name: {error}") from error


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
        typer.Option("--run", metavar="DIR", help="Run folder [default: evaluators/NAME in $LEAGUE_HOME, or in var]."),
    ] = None,
    duty: Annotated[float, typer.Option("--duty", min=0.01, max=1.0, help="Share of the time to play.")] = 0.25,
    num_envs: Annotated[
        int | None,
        typer.Option(
            "--num-envs",
            min=2,
            help="Matches that run at once [default: as many as the game's trainers have].",
        ),
    ] = None,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Matches per pair, side and lease.")] = 1,
    processes: Annotated[
        int,
        typer.Option(
            "--processes",
            min=0,
            max=256,
            help="Processes that step each game which plays one match at a time, such as PettingZoo's.",
        ),
    ] = 0,
    record_every_s: Annotated[
        float,
        typer.Option("--record-every-s", min=0.0, help="Record a match of every environment so often; 0 records none."),
    ] = 60.0,
    modules: Modules = None,
    disk_cache_bytes: DiskCacheBytes = 2 * 2**30,
    memory_cache_bytes: MemoryCacheBytes = 256 * 2**20,
) -> None:
    """Play the rating matches that the league asks for.

    Example: trainer evaluate --environment mech-duel --duty 1
    """
    torch.set_num_threads(1)
    allow_modules(modules or ())
    terminal = open_terminal()
    signals = ShutdownSignals(terminal.print)
    specs = [declare(each) for each in environment] if environment else list(declare_all(leave_out=terminal.print))
    grounds = EnvironmentCache(processes)
    if processes and not any(grounds.uses_processes(spec.name) for spec in specs):
        played = ", ".join(spec.name for spec in specs)
        raise typer.BadParameter(f"none of {played} plays one match at a time: leave --processes out")
    folder = RunDirectory(run_folder or evaluator_folder(home_folder(), name))
    rng = random.Random()  # noqa: S311  jitter
    with signals.entered() as outside, folder.locked(), connect(league, token, EVALUATOR_TIMEOUT_S) as client:
        link = link_of(client, EVALUATOR_BACKOFF_S, signals)
        cache = CheckpointCache(folder.opponents, disk_cache_bytes)
        pools = {
            spec.name: OpponentPool(
                spec,
                lambda sha256: link.try_call("downloads", lambda client: client.download(sha256)),
                cache,
                memory_limit_bytes=memory_cache_bytes,
                device="cpu",
            )
            for spec in specs
        }
        membership = EvaluatorSession(link, specs, name=name, version=version(), instance=folder.instance())
        spool = ResultSpool(folder.spool)
        terminal.print(f"playing rating matches of {', '.join(pools)} at {league}")
        matches = {spec.name: num_envs or resolve(spec.name, None, []).environment.num_envs for spec in specs}
        pace = EvaluationBudget(matches, budget, duty)
        recordings = ReplayUploader(record_every_s or None, outside.clock)
        EvaluationWorker(
            membership, pools, spool, pace, recordings, grounds, console=terminal, run_context=outside, rng=rng
        ).run()
