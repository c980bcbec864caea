"""The `arena` command: look at the games, play matches and tournaments, measure speed."""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from arena.environments import baselines, make, names
from arena.environments.spec import EnvironmentSpec, ObservationBlock
from arena.errors import ArenaError, UnknownEnvironmentError, UnknownPolicyError

BAD_USAGE = 2
PIPED_WIDTH = 200
BENCH_STEPS = 200
BENCH_REPEATS = 5

app = typer.Typer(
    name="arena",
    help="The games of the league: look at them, play matches and tournaments, measure speed.",
    epilog="Example: arena match lieutenant random --environment mech-duel --matches 200",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

PLAYER_HELP = "A baseline of the environment, or the path of a checkpoint."
EnvironmentName = Annotated[str, typer.Option("--environment", help="The game; `arena environments` lists them.")]
Matches = Annotated[int, typer.Option("--matches", min=1, help="Matches between two players; sides swap in pairs.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="What all seeds are derived from.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command(epilog="Example: arena environments --json")
def environments(as_json: AsJson = False) -> None:
    """List the built-in games: agents, observation, actions, length, signature, baselines."""
    specs = [make(name, num_envs=1).spec for name in names()]
    if as_json:
        _print_json({"items": [_describe(spec) for spec in specs], "next_cursor": None})
        return
    table = Table("environment", "agents", "observation", "actions", "decisions", "baselines", "signature")
    for spec in specs:
        table.add_row(
            spec.name,
            " v ".join(str(agents) for agents in spec.agents_per_side),
            "\n".join(f"{block.name} {_write_shape(block)}" for block in spec.observation),
            "\n".join(f"{head.name}: {head.kind} {head.size}{' masked' * head.masked}" for head in spec.heads),
            str(spec.max_decisions),
            "\n".join(f"{each.name} {each.rating:.0f}" for each in baselines(spec.name)),
            spec.signature,
        )
    _stdout().print(table)


@app.command(epilog="Example: arena match lieutenant random --environment mech-duel --matches 200")
def match(
    a: Annotated[str, typer.Argument(metavar="A", help=PLAYER_HELP)],
    b: Annotated[str, typer.Argument(metavar="B", help=PLAYER_HELP)],
    environment: EnvironmentName,
    matches: Matches = 200,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Play A against B, each seed once on either side, and print A's mean score with its 95 % interval."""
    # Imported here, as below: torch would cost `--help` its start-up time.
    from arena.match import play_series, resolve_policy

    _prepare_torch(threads=1)
    players = [resolve_policy(environment, name) for name in (a, b)]
    start = time.perf_counter()
    with _progress(f"{a} v {b}", matches) as advance:
        series = play_series(environment, *players, matches=matches, seed=seed, on_finished=advance)
    decisions_per_s = series.decisions / (time.perf_counter() - start)
    low, high = series.interval
    if as_json:
        _print_json(
            {
                "environment": environment,
                "home": a,
                "away": b,
                "matches": matches,
                "score": series.score,
                "low": low,
                "high": high,
                "reasons": series.reasons,
                "decisions_per_s": decisions_per_s,
            }
        )
        return
    table = Table("A", "B", "matches", "score of A", "95 % interval", "ended by", "decisions/s")
    reasons = ", ".join(f"{reason} {count}" for reason, count in series.reasons.items())
    interval = f"{low:.3f} to {high:.3f}"
    table.add_row(a, b, str(matches), f"{series.score:.3f}", interval, reasons, f"{decisions_per_s:,.0f}")
    _stdout().print(table)


@app.command(epilog="Example: arena tournament lieutenant random runs/a.safetensors --environment mech-duel")
def tournament(
    players: Annotated[list[str], typer.Argument(metavar="PLAYER...", help=PLAYER_HELP)],
    environment: EnvironmentName,
    matches: Matches = 100,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Play a round robin and print who scored what against whom, and Glicko-2 ratings.

    Everybody starts at 1500; each round of side-swapped pairs is one rating period.
    """
    from arena.match import resolve_policy
    from arena.tournament import play_tournament

    if len(set(players)) < max(2, len(players)):
        raise typer.BadParameter(f"{' '.join(players)}: give at least two players, each once")
    _prepare_torch(threads=1)
    policies = {name: resolve_policy(environment, name) for name in players}
    total = matches * len(players) * (len(players) - 1) // 2
    with _progress("tournament", total) as advance:
        played = play_tournament(environment, policies, matches=matches, seed=seed, on_finished=advance)
    ratings = played.ratings
    if as_json:
        items = [
            {
                "player": played.names[index],
                "rating": float(ratings.rating[index]),
                "deviation": float(ratings.deviation[index]),
                "points": float(played.points[index]),
                "scores": dict(zip(played.names, played.payoff[index].tolist(), strict=True)),
            }
            for index in played.order
        ]
        _print_json({"environment": environment, "matches": matches, "items": items, "next_cursor": None})
        return
    table = Table("player", "rating ± 2 RD", "points", *(f"v {played.names[index]}" for index in played.order))
    for index in played.order:
        scores = [f"{played.payoff[index, other]:.3f}" if other != index else "" for other in played.order]
        rating = f"{ratings.rating[index]:.0f} ± {2 * ratings.deviation[index]:.0f}"
        table.add_row(played.names[index], rating, f"{played.points[index]:g}", *scores)
    _stdout().print(table)


@app.command(epilog="Example: arena bench --environment mech-duel --num-envs 1024 --threads 1 --json")
def bench(
    environment: EnvironmentName,
    num_envs: Annotated[int, typer.Option("--num-envs", min=1, help="Matches at once.")] = 256,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of tensor operations.")] = 1,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda or cuda:INDEX.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Measure how fast an environment steps under random actions.

    On the CPU: per CPU second of the stepping thread; on a GPU: per second. The median of five repeats counts.
    """
    import torch

    from arena.throughput import measure

    _prepare_torch(threads)
    env = make(environment, num_envs=num_envs, device=device)
    on_gpu = env.device.type == "cuda"

    def gpu_clock() -> float:
        torch.cuda.synchronize(env.device)
        return time.perf_counter()

    speed = measure(
        env,
        steps=BENCH_STEPS,
        repeats=BENCH_REPEATS,
        clock=gpu_clock if on_gpu else time.thread_time,
        rng=torch.Generator(env.device).manual_seed(0),
    )
    if as_json:
        _print_json(
            {
                "environment": environment,
                "num_envs": num_envs,
                "device": str(env.device),
                "agent_steps_per_s": speed.agent_steps_per_s,
                "env_steps_per_s": speed.env_steps_per_s,
            }
        )
        return
    table = Table("environment", "matches at once", "device", "agent steps/s", "match steps/s")
    rates = (f"{rate:,.0f}" for rate in (speed.agent_steps_per_s, speed.env_steps_per_s))
    table.add_row(environment, str(num_envs), str(env.device), *rates)
    _stdout().print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; what a user can cause ends as one line on stderr.

    Exits with 0, with 2 for bad usage such as an unknown name, and with 1 for any other error.
    """
    try:
        app(arguments)
    except ArenaError as error:
        typer.echo(f"arena: {error}", err=True)
        sys.exit(BAD_USAGE if isinstance(error, UnknownEnvironmentError | UnknownPolicyError) else 1)


def _describe(spec: EnvironmentSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "agents_per_side": spec.agents_per_side,
        "roles": spec.roles,
        "observation": [
            {"name": block.name, "shape": block.shape, "low": block.low, "high": block.high}
            for block in spec.observation
        ],
        "heads": [
            {"name": head.name, "kind": head.kind, "size": head.size, "masked": head.masked} for head in spec.heads
        ],
        "max_decisions": spec.max_decisions,
        "turn_based": spec.turn_based,
        "reproducible": spec.reproducible,
        "reasons": spec.reasons,
        "signature": spec.signature,
        "baselines": [{"name": each.name, "rating": each.rating} for each in baselines(spec.name)],
    }


def _write_shape(block: ObservationBlock) -> str:
    return f"{'x'.join(str(size) for size in block.shape)} in [{block.low:g}, {block.high:g}]"


def _prepare_torch(threads: int) -> None:
    """Set torch's threads; in a terminal, tell what takes long before the first match (compiling kernels)."""
    import torch

    torch.set_num_threads(threads)
    if sys.stderr.isatty():
        handler = RichHandler(console=Console(stderr=True), show_time=False, show_level=False, show_path=False)
        logging.basicConfig(level=logging.INFO, handlers=[handler])


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show progress on stderr where it is a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda finished: progress.advance(task, finished)


def _stdout() -> Console:
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)


def _print_json(value: Any) -> None:  # noqa: ANN401  anything that JSON can hold
    typer.echo(json.dumps(value, indent=2))


if __name__ == "__main__":
    main()
