"""`arena depth`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena.cli.options import AsJson, Modules, Seed, trust
from arena.cli.output import game_stdout_to_stderr, make_table, prepare_torch, print_json, progress, stdout
from arena.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from arena.depth.analysis import Depth, PlayStatistics
    from arena.depth.double_oracle import Pool

app = typer.Typer()

EVEN = "an even number, because sides swap in pairs"


@app.command(epilog="Example: arena depth mech-duel --state duel.json")
def depth(
    preset: Annotated[str, typer.Argument(metavar="PRESET", help="A preset of the mech arena, such as mech-duel.")],
    players: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PLAYER]...", help="Baselines, checkpoints or run folders that join the tactics."),
    ] = None,
    matches: Annotated[int, typer.Option("--matches", min=2, help=f"Matches between two players: {EVEN}.")] = 128,
    rounds: Annotated[int, typer.Option("--rounds", min=0, help="Most rounds of the double oracle.")] = 16,
    candidates: Annotated[
        int, typer.Option("--candidates", min=4, help="Tactics that each round tries as a best response.")
    ] = 32,
    seed: Seed = 0,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", metavar="FILE", dir_okay=False, help="Save every round here. The same command then continues."
        ),
    ] = None,
    modules: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Measure the strategic depth of a mech preset with a double oracle over scripted tactics.

    Prints the tactics with their payoffs and Nash weights, how matches of the equilibrium go, and for each mechanic the
    score of the equilibrium without it against the whole one.
    """
    from arena.depth.analysis import LIEUTENANT, DepthAnalysis
    from arena.depth.double_oracle import Budget
    from arena.depth.matches import NamedPolicy
    from arena.environments.mech.config.scenario import PRESETS
    from arena.play.series import resolve_policy

    if preset not in PRESETS:
        raise typer.BadParameter(f"{preset!r} is no mech preset: use one of {', '.join(PRESETS)}", param_hint="PRESET")
    if matches % 2:
        raise typer.BadParameter(f"{matches}: give {EVEN}", param_hint="--matches")
    prepare_torch(threads=1)
    trust(modules)
    names = list(dict.fromkeys((LIEUTENANT, *(players or ()))))
    arguments = {
        "environment": preset,
        "players": names,
        "matches": matches,
        "candidates": candidates,
        "seed": seed,
    }
    saved, save = _open_state(state, arguments)
    with game_stdout_to_stderr():
        named = [NamedPolicy(name, resolve_policy(preset, name)) for name in names]
        analysis = DepthAnalysis(preset, named, Budget(matches, rounds, candidates), seed)
        with progress(f"depth of {preset}", analysis.steps) as on:
            found = analysis.run(saved, save, on)
    if as_json:
        print_json({**arguments, **found.to_dict()})
    else:
        _print(found)


def _open_state(path: Path | None, arguments: dict[str, Any]) -> "tuple[dict[str, Any] | None, Callable[[Pool], None]]":
    """Return the saved pool, if there is one, and a function that saves a pool."""
    from arena.atomic_files import write_atomically

    def save(pool: "Pool") -> None:
        if path is not None:
            write_atomically(path, json.dumps({**arguments, "pool": pool.to_dict()}).encode())

    if path is None or not path.exists():
        return None, save
    try:
        others = json.loads(path.read_bytes())
        pool = others["pool"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} has no saved rounds: give a new file, or one that --state has written") from None
    for name, value in arguments.items():
        if others.get(name) != value:
            raise InputError(
                f"{path} was saved with {name} {others.get(name)!r}, and this command has {value!r}: repeat the first "
                "command, or give a new file"
            )
    return pool, save


def _print(found: "Depth") -> None:
    console = stdout()
    console.print(_tabulate_payoff(found))
    last = found.pool.rounds[-1:]
    challenge = f"; the last challenger scored {last[0].score:.3f} against the mixture" if last else ""
    console.print(
        f"{found.considerable} of {len(found.nash)} players above 10 %; cyclic share {found.pool.cyclic:.2f}; "
        f"{len(found.pool.rounds)} rounds{challenge}"
    )
    console.print(_tabulate_play({"Nash mixture": found.mixture_play, "lieutenant": found.lieutenant_play}))
    table = make_table("without", "used by", "score against\nthe mixture", "95 % interval")
    for each in found.ablations:
        if each.used:
            table.add_row(each.mechanic, f"{each.used:.0%}", f"{each.score:.3f}", f"{each.low:.3f} to {each.high:.3f}")
        else:
            table.add_row(each.mechanic, "none", "", "")
    console.print(table)


def _tabulate_payoff(found: "Depth") -> Any:  # noqa: ANN401  a rich table
    """Players from the largest weight to the smallest, with their scores against each other."""
    order = sorted(range(len(found.nash)), key=lambda index: (-found.nash[index], index))
    table = make_table("", "player", "Nash", *(f"v {rank + 1}" for rank in range(len(order))))
    for rank, index in enumerate(order):
        scores = [f"{found.pool.win_rate[index, other]:.2f}" if other != index else "" for other in order]
        table.add_row(str(rank + 1), str(found.pool.players[index]), f"{found.nash[index]:.1%}", *scores)
    return table


def _tabulate_play(plays: "dict[str, PlayStatistics]") -> Any:  # noqa: ANN401  a rich table
    """How each player's matches against itself go."""
    table = make_table("against itself", *plays)
    columns = list(plays.values())
    rows = {
        "draws": [f"{play.draws:.1%}" for play in columns],
        "decisions, median (10 to 90 %)": [
            f"{play.decisions[1]:.0f} ({play.decisions[0]:.0f} to {play.decisions[2]:.0f})" for play in columns
        ],
        "score of home": [
            f"{score:.3f} ({low:.3f} to {high:.3f})" for score, low, high in (play.home_score for play in columns)
        ],
        "ended by": [_shares(play.reasons) for play in columns],
        "damage": [_shares(play.damage) for play in columns],
        "time shut down, fallen": [f"{play.shut_down:.1%}, {play.fallen:.1%}" for play in columns],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _shares(amounts: "dict[str, int] | dict[str, float]") -> str:
    total = sum(amounts.values()) or 1.0
    ranked = sorted(amounts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {amount / total:.0%}" for name, amount in ranked)
