"""`arena report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.options import AsJson
from arena.cli.output import make_table, print_json, stdout

if TYPE_CHECKING:
    from arena.evaluation.report import Report

app = typer.Typer()


@app.command(epilog="Example: arena report results.json --plot components.svg")
def report(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Results of `arena tournament --output` or `league export --results`."),
    ],
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw the cyclic components into this file.")
    ] = None,
    components: Annotated[
        int | None,
        typer.Option("--components", min=0, help="Number of cyclic components. Held-out pairs choose it by default."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Number of players in the table, strongest first.")] = 12,
    as_json: AsJson = False,
) -> None:
    """Print ratings with intervals, payoffs, cycles and Nash weights of a results file.

    Everything is computed from the games in the file, so the same file gives the same report. JSON has all players.
    """
    from arena.atomic_files import write_atomically
    from arena.evaluation import results_file
    from arena.evaluation.components_svg import draw_components
    from arena.evaluation.report import evaluate

    results = results_file.read(file)
    found = evaluate(results, components)
    if plot is not None and len(found.components):
        write_atomically(plot, draw_components(found).encode())
    if as_json:
        print_json({"environment": results.environment, "source": dict(results.source), **found.to_dict()})
        return
    order = found.order[:limit]
    table = make_table(
        "", "player", "rating", "95 % interval", "Nash", *(f"v {rank + 1}" for rank in range(len(order)))
    )
    for rank, index in enumerate(order):
        scores = [f"{found.score[index, other]:.3f}" if found.games[index, other] else "" for other in order]
        interval = f"{found.low[index]:.0f} to {found.high[index]:.0f}"
        nash = f"{100 * found.nash[index]:.1f} %"
        table.add_row(str(rank + 1), found.names[index], f"{found.rating[index]:.0f}", interval, nash, *scores)
    stdout().print(table)
    if len(found.names) > limit:
        typer.echo(f"{limit} of {len(found.names)} players; --limit {len(found.names)} shows all")
    for line in describe_cycles(found):
        typer.echo(line)
    if plot is not None and not len(found.components):
        typer.echo(f"{plot} was not written, because there is no cyclic component to draw")


def describe_cycles(found: "Report") -> list[str]:
    """Return the number of cyclic components and the strongest cycle, one line each."""
    count = len(found.components)
    lines = [f"cyclic components: {count or 'none, ratings predict as well'}"]
    if found.cycle is not None:
        names = [found.names[index] for index in found.cycle.players]
        wins = [
            f"{name} beats with {100 * rate:.1f} %" for name, rate in zip(names, found.cycle.win_rates, strict=True)
        ]
        lines.append(f"strongest predicted cycle: {' '.join(wins)} {names[0]}")
    return lines
