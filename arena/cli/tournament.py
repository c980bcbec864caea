"""`arena tournament`."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from arena.cli.options import (
    ANSWER_S,
    PLAYER_HELP,
    AnswerSeconds,
    AsJson,
    EnvironmentName,
    Matches,
    Modules,
    Seed,
    open_players,
    trust,
)
from arena.cli.output import game_stdout_to_stderr, make_table, prepare_torch, print_json, progress, stdout

app = typer.Typer()


@app.command(epilog="Example: arena tournament lieutenant random runs/a.safetensors --environment mech-duel")
def tournament(
    players: Annotated[list[str], typer.Argument(metavar="PLAYER...", help=PLAYER_HELP)],
    environment: EnvironmentName,
    matches: Matches = 100,
    seed: Seed = 0,
    answer_s: AnswerSeconds = ANSWER_S,
    modules: Modules = None,
    file: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write all results into this file, which `arena report` reads."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play a round robin and print the score of each pair, and Glicko-2 ratings.

    All players start at 1500. Each round of side-swapped pairs is one rating period.
    """
    from arena.evaluation import results_file
    from arena.play.tournament import play_tournament

    if len(set(players)) < max(2, len(players)):
        raise typer.BadParameter(f"{' '.join(players)}: give at least two different players")
    prepare_torch(threads=1)
    trust(modules)
    total = matches * len(players) * (len(players) - 1) // 2
    with game_stdout_to_stderr(), open_players(environment, players, answer_s) as found:
        policies = dict(zip(players, found, strict=True))
        with progress("tournament", total) as on:
            played = play_tournament(environment, policies, matches=matches, seed=seed, on_finished=on)
    if file is not None:
        source = {"command": "arena tournament", "matches": matches, "seed": seed, "version": version("echelon-league")}
        results_file.write(file, played.results(environment, matches, source))
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
        print_json({"environment": environment, "matches": matches, "items": items, "next_cursor": None})
        return
    table = make_table("", "player", "rating ± 2 RD", "points", *(f"v {rank + 1}" for rank in range(len(players))))
    for rank, index in enumerate(played.order):
        scores = [f"{played.payoff[index, other]:.3f}" if other != index else "" for other in played.order]
        rating = f"{ratings.rating[index]:.0f} ± {2 * ratings.deviation[index]:.0f}"
        table.add_row(str(rank + 1), played.names[index], rating, f"{played.points[index]:g}", *scores)
    stdout().print(table)
