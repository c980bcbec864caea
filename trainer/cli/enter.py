"""`trainer enter`."""

import random
from pathlib import Path
from typing import Annotated

import torch
import typer

from arena.environments import declare
from arena.external import FORMS, USUAL, Patience, form_of, open_policy
from arena.external.policy import first_faults
from arena.policies.nn.user_module import allow_modules
from league.client import DEFAULT_URL
from league.home import entry_folder, home_folder
from trainer.checkpointing.run_directory import RunDirectory
from trainer.cli.clients import connect, link_of, open_terminal, version
from trainer.cli.evaluate import EVALUATOR_BACKOFF_S, EVALUATOR_TIMEOUT_S
from trainer.cli.options import DiskCacheBytes, League, MemoryCacheBytes, Modules, Token
from trainer.config.loading import resolve
from trainer.config.runtime import LEARNER_NAME_MAX, check_name
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
from trainer.league_client.result_spool import ResultSpool
from trainer.opponents.checkpoint_cache import CheckpointCache
from trainer.opponents.pool import Opponent
from trainer.shutdown import ShutdownSignals

app = typer.Typer()


def _player_name(name: str) -> str:
    try:
        return check_name(name, LEARNER_NAME_MAX)
    except ValueError as error:
        raise typer.BadParameter(f"{name!r} is no name: {error}") from error


def _policy_name(policy: str) -> str:
    if form_of(policy) is None:
        raise typer.BadParameter(f"{policy!r} is none of {FORMS}")
    return policy


@app.command()
def enter(
    environment: Annotated[str, typer.Option("--environment", help="What it plays.")],
    name: Annotated[
        str,
        typer.Option("--name", callback=_player_name, help="How the league calls the player; one policy, one name."),
    ],
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="POLICY",
            callback=_policy_name,
            help=f"Who plays: {FORMS}; see docs/external_players.md.",
        ),
    ],
    league: League = DEFAULT_URL,
    token: Token = None,
    matches: Annotated[
        int | None, typer.Option("--matches", min=1, help="End after so many [default: play until stopped].")
    ] = None,
    answer_s: Annotated[
        float, typer.Option("--answer-s", min=0.001, help="Seconds that a process or server may take for an answer.")
    ] = USUAL.answer_s,
    start_s: Annotated[
        float, typer.Option("--start-s", min=0.001, help="Seconds that it may take until it is ready.")
    ] = USUAL.start_s,
    run_folder: Annotated[
        Path | None,
        typer.Option(
            "--run", metavar="DIR", help="Run folder [default: entries/ENVIRONMENT/NAME in $LEAGUE_HOME, or in var]."
        ),
    ] = None,
    duty: Annotated[float, typer.Option("--duty", min=0.01, max=1.0, help="Share of the time to play.")] = 1.0,
    num_envs: Annotated[
        int | None,
        typer.Option(
            "--num-envs", min=2, help="Matches that run at once [default: as many as the game's trainers have]."
        ),
    ] = None,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Matches per pair, side and lease.")] = 1,
    record_every_s: Annotated[
        float, typer.Option("--record-every-s", min=0.0, help="Record a match so often; 0 records none.")
    ] = 60.0,
    modules: Modules = None,
    disk_cache_bytes: DiskCacheBytes = 2 * 2**30,
    memory_cache_bytes: MemoryCacheBytes = 256 * 2**20,
) -> None:
    """Enter a policy of your own as a player and play its rating matches; the same name goes on as the same player.

    Example: trainer enter --environment rps --name stone --policy mybots:stone
    """
    torch.set_num_threads(1)
    allow_modules(modules or ())
    terminal = open_terminal()
    signals = ShutdownSignals(terminal.print)
    spec = declare(environment)
    folder = RunDirectory(run_folder or entry_folder(home_folder(), spec.name, name))
    rng = random.Random()  # noqa: S311  jitter
    with signals.entered() as outside, folder.locked(), connect(league, token, EVALUATOR_TIMEOUT_S) as client:
        patience = Patience(answer_s=answer_s, start_s=start_s)
        with open_policy(spec, policy, patience, first_faults(terminal.print)) as own:
            dry_run_match(spec, own)
            link = link_of(client, EVALUATOR_BACKOFF_S, signals)
            entry = Entry(name, form_of(policy) or policy, own.identity)
            membership = ExternalPlayerSession(
                link, spec, entry, version=version(), instance=folder.instance(), print_line=terminal.print
            )
            pool = ExternalPlayerPool(
                Opponent(f"external:{name}", name, own),
                spec,
                lambda sha256: link.try_call("downloads", lambda client: client.download(sha256)),
                CheckpointCache(folder.opponents, disk_cache_bytes),
                memory_limit_bytes=memory_cache_bytes,
                device="cpu",
            )
            at_once = num_envs or resolve(spec.name, None, []).environment.num_envs
            ExternalPlayerWorker(
                membership,
                {spec.name: pool},
                ResultSpool(folder.spool),
                EvaluationBudget({spec.name: at_once}, budget, duty, matches),
                ReplayUploader(record_every_s or None, outside.clock),
                EnvironmentCache(0),
                console=terminal,
                run_context=outside,
                rng=rng,
            ).run()
