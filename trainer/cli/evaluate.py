"""`trainer evaluate`."""

import random
from pathlib import Path
from typing import Annotated

import torch
import typer

from arena.environments import declare, declare_all
from arena.policies.modules import name_modules
from league.client import DEFAULT_URL
from trainer.cli.connection import connect, link_of, open_terminal, version
from trainer.cli.options import DiskCacheBytes, League, MemoryCacheBytes, Modules, Token, runs
from trainer.config import resolve
from trainer.evaluator import EvaluationWorker, Pace, RatingMembership
from trainer.folder import RunFolder
from trainer.grounds import Grounds
from trainer.opponents import DiskCache, OpponentPool
from trainer.recordings import Recordings
from trainer.settings.run import WORKER_NAME_MAX, check_name
from trainer.spool import Spool
from trainer.surroundings import Signals

EVALUATOR_TIMEOUT_S = 30.0
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
        typer.Option("--run", metavar="DIR", help="Run folder [default: $LEAGUE_HOME/runs/NAME, or var/runs/NAME]."),
    ] = None,
    duty: Annotated[float, typer.Option("--duty", min=0.01, max=1.0, help="Share of one core to spend.")] = 0.25,
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
    name_modules(modules or ())
    terminal = open_terminal()
    signals = Signals(terminal.say)
    specs = [declare(each) for each in environment] if environment else list(declare_all(leave_out=terminal.say))
    grounds = Grounds(processes)
    if processes and not any(grounds.steps(spec.name) for spec in specs):
        played = ", ".join(spec.name for spec in specs)
        raise typer.BadParameter(f"none of {played} plays one match at a time: leave --processes out")
    folder = RunFolder(run_folder or runs() / name)
    rng = random.Random()  # noqa: S311  jitter
    with signals.entered() as outside, folder.taken(), connect(league, token, EVALUATOR_TIMEOUT_S) as client:
        link = link_of(client, EVALUATOR_BACKOFF_S, signals)
        cache = DiskCache(folder.opponents, disk_cache_bytes)
        pools = {
            spec.name: OpponentPool(
                spec,
                lambda sha256: link.attempt("downloads", lambda client: client.download(sha256)),
                cache,
                memory_limit_bytes=memory_cache_bytes,
                device="cpu",
            )
            for spec in specs
        }
        membership = RatingMembership(link, specs, name=name, version=version(), instance=folder.instance())
        spool = Spool(folder.spool)
        terminal.say(f"playing rating matches of {', '.join(pools)} at {league}")
        matches = {spec.name: num_envs or resolve(spec.name, None, []).environment.num_envs for spec in specs}
        pace = Pace(matches, budget, duty)
        recordings = Recordings(record_every_s or None, outside.clock)
        EvaluationWorker(
            membership, pools, spool, pace, recordings, grounds, terminal=terminal, outside=outside, rng=rng
        ).run()
