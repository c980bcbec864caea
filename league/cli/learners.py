"""Look at the lineages that are trained."""

from collections.abc import Sequence
from typing import Annotated

import typer

from league import wire
from league.cli.connection import AsJson, Cursor, Environment, Limit, Token, Url, connect, pages
from league.cli.output import tables
from league.cli.output.grid import Grid
from league.client import DEFAULT_URL, LeagueClient
from league.errors import InvalidRequestError, UnknownLearnerError
from league.services.environments import lookup as environments

app = typer.Typer()

_BLOCKS = "▁▂▃▄▅▆▇█"
COURSE_POINTS = 40
"""Points of a metric that are drawn in a line."""

Which = Annotated[str, typer.Argument(metavar="LEARNER", help="A learner's name, or its id in `league learners`.")]
Names = Annotated[list[str] | None, typer.Option("--name", help="Only this metric; may be repeated.")]


@app.command(epilog="Example: league learners --environment mech-duel")
def learners(
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


@app.command(epilog="Example: league metrics main --name losses/approx_kl --name charts/episodic_return")
def metrics(
    learner: Which,
    names: Names = None,
    environment: Environment = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show a learner's training metrics over its steps.

    --json prints every point that the league stores.
    """
    with connect(url, token) as client:
        found = _find(client, learner, environment)
        told = client.metrics(found.id, names, most=None if as_json else COURSE_POINTS)
    if as_json:
        tables.show_json(told)
    else:
        tables.show(metrics_grid(found, told))


def _find(client: LeagueClient, which: str, environment: str | None) -> wire.Learner:
    """Return the learner of a name or id.

    Raises:
        UnknownLearnerError: There is none.
        InvalidRequestError: Several environments have one of this name.
    """
    everybody = list(pages(lambda cursor: client.learners(environment, limit=1000, cursor=cursor)))
    found = [each for each in everybody if each.name == which] or [each for each in everybody if str(each.id) == which]
    if not found:
        raise UnknownLearnerError(which, "no learner has this name or id", "`league learners` lists them all")
    if len(found) > 1:
        rule = f"learners of {environments.described(sorted({each.environment for each in found}))} have this name"
        raise InvalidRequestError(which, rule, "name one by --environment, or by its id")
    return found[0]


def metrics_grid(learner: wire.Learner, told: wire.LearnerMetrics) -> Grid:
    """Make a list of metrics over steps."""
    span = f"steps {told.steps[0]:,} to {told.steps[-1]:,}" if told.steps else "no steps"
    rows = [
        [name, _figure(known[-1]), _figure(min(known)), _figure(max(known)), course(values)]
        for name, values in told.metrics.items()
        if (known := [value for value in values if value is not None])
    ]
    return Grid(
        [[], ["metric"], ["last", "least", "greatest"], ["course"]],
        rows,
        "nothing of that name was reported yet; `league learners --json` has the names",
        f"{learner.name} of {learner.environment}, {span}",
    )


def course(values: Sequence[float | None]) -> str:
    """Draw values as one block each, from the least to the greatest; a gap where there is none."""
    known = [value for value in values if value is not None]
    low, span = min(known, default=0.0), max(known, default=0.0) - min(known, default=0.0)
    top = len(_BLOCKS) - 1
    return "".join(" " if each is None else _BLOCKS[round((each - low) / span * top) if span else 0] for each in values)


def _figure(value: float) -> str:
    return f"{value:.4g}"
