"""`trainer evaluate`."""

import random
from typing import Annotated

import typer

from arena.environments import declare, declare_all
from arena.policies.nn.user_module import allow_modules
from league.client import DEFAULT_URL
from league.client.result_spool import ResultSpool
from league.home import evaluator_folder, home_folder
from trainer.checkpointing.run_directory import RunDirectory
from trainer.cli import options
from trainer.cli.clients import make_console, rating_worker, version
from trainer.config.loading import resolve
from trainer.config.runtime import WORKER_NAME_MAX
from trainer.evaluation.env_cache import EnvironmentCache
from trainer.evaluation.evaluator import EvaluationBudget, EvaluationWorker
from trainer.evaluation.replay_upload import ReplayUploader
from trainer.evaluation.session import EvaluatorSession
from trainer.opponents.checkpoint_cache import CheckpointCache
from trainer.opponents.pool import OpponentPool
from trainer.shutdown import ShutdownSignals

app = typer.Typer()


@app.command(epilog="Example: trainer evaluate --environment mech-duel --duty 1")
def evaluate(
    league: options.League = DEFAULT_URL,
    token: options.Token = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(
            "--environment", help="Environment to play. May be repeated.", show_default="all that are installed"
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            "--name", callback=options.name_checker(WORKER_NAME_MAX), help="Name of this worker in the league."
        ),
    ] = "evaluator",
    run_folder: options.RunFolder = None,
    duty: options.Duty = 0.25,
    num_envs: options.NumEnvs = None,
    budget: options.Budget = 1,
    processes: Annotated[
        int,
        typer.Option(
            "--processes",
            min=0,
            max=256,
            help="Worker processes of each environment that plays one match at a time (PettingZoo).",
        ),
    ] = 0,
    record_every_s: options.RecordEvery = 60.0,
    modules: options.Modules = None,
    disk_cache_bytes: options.DiskCacheBytes = 2 * 2**30,
    memory_cache_bytes: options.MemoryCacheBytes = 256 * 2**20,
) -> None:
    """Play rating matches for the league."""
    allow_modules(modules or ())
    console = make_console()
    signals = ShutdownSignals(console.print)
    specs = [declare(each) for each in environment] if environment else list(declare_all(leave_out=console.print))
    env_cache = EnvironmentCache(processes)
    if processes and not any(env_cache.uses_processes(spec.name) for spec in specs):
        played = ", ".join(spec.name for spec in specs)
        raise typer.BadParameter(f"none of {played} plays one match at a time: leave --processes out")
    folder = RunDirectory(run_folder or evaluator_folder(home_folder(), name))
    with rating_worker(folder, league, token, signals) as (client, run_context):
        cache = CheckpointCache(folder.opponents, disk_cache_bytes)
        pools = {
            spec.name: OpponentPool(
                spec,
                lambda sha256: client.try_call("downloads", lambda client: client.download(sha256)),
                cache,
                memory_limit_bytes=memory_cache_bytes,
                device="cpu",
            )
            for spec in specs
        }
        console.print(f"playing rating matches of {', '.join(pools)} at {league}")
        matches = {spec.name: num_envs or resolve(spec.name, None, []).environment.num_envs for spec in specs}
        EvaluationWorker(
            EvaluatorSession(client, specs, name=name, version=version(), instance=folder.instance()),
            pools,
            ResultSpool(folder.spool),
            EvaluationBudget(matches, budget, duty),
            ReplayUploader(record_every_s or None, run_context.clock),
            env_cache,
            console=console,
            run_context=run_context,
            rng=random.Random(),  # noqa: S311  jitter
        ).run()
