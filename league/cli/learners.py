"""`league learner list` and `league learner metrics`."""

from collections.abc import Sequence
from typing import Annotated

import typer

from league import wire
from league.cli.connection import AsJson, Cursor, Environment, Limit, Token, Url, connect
from league.cli.output import tables
from league.cli.output.grid import Grid
from league.client import DEFAULT_URL

app = typer.Typer()

_BLOCKS = "▁▂▃▄▅▆▇█"
TREND_POINTS = 40
"""Width of a trend line (sparkline), in points."""

Which = Annotated[
    str, typer.Argument(metavar="LEARNER", help="A learner's name, or its id as listed by `league learner list`.")
]
Names = Annotated[list[str] | None, typer.Option("--name", help="Only this metric. May be repeated.")]


@app.command("list", epilog="Example: league learner list --environment mech-duel")
def list_learners(
    environment: Environment = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """List learners with their roles, steps and resets.

    --json prints every field.
    """
    with connect(url, token) as client:
        page = client.learners(environment, limit=limit, cursor=cursor)
    tables.show_page(page, as_json, tables.learners(page.items))


@app.command(epilog="Example: league learner metrics main --name losses/approx_kl --name charts/episodic_return")
def metrics(
    learner: Which,
    names: Names = None,
    environment: Environment = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show a learner's training metrics over its steps.

    --json prints all stored points.
    """
    with connect(url, token) as client:
        found = client.learner(learner, environment)
        curves = client.metrics(found.id, names, most=None if as_json else TREND_POINTS)
    if as_json:
        tables.show_json(curves)
    else:
        tables.show(metrics_grid(found, curves))


def metrics_grid(learner: wire.Learner, curves: wire.TrainingCurves) -> Grid:
    """Return a table of metrics over steps."""
    span = f"steps {curves.steps[0]:,} to {curves.steps[-1]:,}" if curves.steps else "no steps"
    rows = [
        [name, f"{known[-1]:.4g}", f"{min(known):.4g}", f"{max(known):.4g}", trend(values)]
        for name, values in curves.metrics.items()
        if (known := [value for value in values if value is not None])
    ]
    return Grid(
        [[], ["metric"], ["last", "min", "max"], ["trend"]],
        rows,
        "no such metric reported yet; `league learner list --json` lists the names",
        f"{learner.name} of {learner.environment}, {span}",
    )


def trend(values: Sequence[float | None]) -> str:
    """Return a sparkline: one block per value between the minimum and the maximum, a gap for None."""
    known = [value for value in values if value is not None]
    low, span = min(known, default=0.0), max(known, default=0.0) - min(known, default=0.0)
    top = len(_BLOCKS) - 1
    return "".join(" " if each is None else _BLOCKS[round((each - low) / span * top) if span else 0] for each in values)
