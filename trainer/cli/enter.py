"""`trainer enter`."""

import random
from typing import Annotated

import typer

from arena.agents import FORMS, USUAL, Timeouts, kind_of, open_policy
from arena.agents.policy import first_faults
from arena.environments import declare
from arena.policies.nn.user_module import allow_modules
from league.client import DEFAULT_URL
from league.client.result_spool import ResultSpool
from league.home import entry_folder, home_folder
from trainer.checkpointing.run_directory import RunDirectory
from trainer.cli import options
from trainer.cli.clients import make_console, rating_worker, version
from trainer.config.loading import resolve
from trainer.config.runtime import LEARNER_NAME_MAX
from trainer.evaluation.env_cache import EnvironmentCache
from trainer.evaluation.evaluator import EvaluationBudget
from trainer.evaluation.external_player import (
    Entry,
    ExternalPlayerPool,
    ExternalPlayerSession,
    ExternalPlayerWorker,
    dry_run_match,
)
from trainer.evaluation.replay_upload import ReplayUploader
from trainer.opponents.checkpoint_cache import CheckpointCache
from trainer.opponents.pool import Opponent
from trainer.shutdown import ShutdownSignals

app = typer.Typer()


def _policy_name(policy: str) -> str:
    if kind_of(policy) is None:
        raise typer.BadParameter(f"{policy!r} is not one of {FORMS}")
    return policy


@app.command(epilog="Example: trainer enter --environment rps --name stone --policy mybots:stone")
def enter(
    environment: Annotated[str, typer.Option("--environment", help="Environment that the player plays.")],
    name: Annotated[
        str,
        typer.Option(
            "--name",
            callback=options.name_checker(LEARNER_NAME_MAX),
            help="Name of the player. Use one name per policy.",
        ),
    ],
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="POLICY",
            callback=_policy_name,
            help=f"Policy: {FORMS}. See docs/guides/games/external-players.md.",
        ),
    ],
    league: options.League = DEFAULT_URL,
    token: options.Token = None,
    matches: Annotated[
        int | None, typer.Option("--matches", min=1, help="Stop after this many matches.", show_default="none")
    ] = None,
    answer_s: Annotated[
        float,
        typer.Option(
            "--timeout", min=0.001, metavar="SECONDS", help="Maximum time for a response of a process or server."
        ),
    ] = USUAL.answer_s,
    start_s: Annotated[
        float,
        typer.Option("--start-timeout", min=0.001, metavar="SECONDS", help="Maximum time for its first response."),
    ] = USUAL.start_s,
    run_folder: options.RunFolder = None,
    duty: options.Duty = 1.0,
    num_envs: options.NumEnvs = None,
    budget: options.Budget = 1,
    record_every_s: options.RecordEvery = 60.0,
    modules: options.Modules = None,
    disk_cache_bytes: options.DiskCacheBytes = 2 * 2**30,
    memory_cache_bytes: options.MemoryCacheBytes = 256 * 2**20,
) -> None:
    """Enter your own policy as a rated player.

    The command plays the rating matches of the policy. The same name continues as the same player.
    """
    allow_modules(modules or ())
    console = make_console()
    spec = declare(environment)
    folder = RunDirectory(run_folder or entry_folder(home_folder(), spec.name, name))
    patience = Timeouts(answer_s=answer_s, start_s=start_s)
    with (
        rating_worker(folder, league, token, ShutdownSignals(console.print)) as (client, run_context),
        open_policy(spec, policy, patience, first_faults(console.print)) as own,
    ):
        dry_run_match(spec, own)
        entry = Entry(name, kind_of(policy) or policy, own.identity)
        pool = ExternalPlayerPool(
            Opponent(f"external:{name}", name, own),
            spec,
            lambda sha256: client.try_call("downloads", lambda client: client.download(sha256)),
            CheckpointCache(folder.opponents, disk_cache_bytes),
            memory_limit_bytes=memory_cache_bytes,
            device="cpu",
        )
        concurrent = num_envs or resolve(spec.name, None, []).environment.num_envs
        ExternalPlayerWorker(
            ExternalPlayerSession(
                client, spec, entry, version=version(), instance=folder.instance(), print_line=console.print
            ),
            {spec.name: pool},
            ResultSpool(folder.spool),
            EvaluationBudget({spec.name: concurrent}, budget, duty, matches),
            ReplayUploader(record_every_s or None, run_context.clock),
            EnvironmentCache(0),
            console=console,
            run_context=run_context,
            rng=random.Random(),  # noqa: S311  jitter
        ).run()
