"""`league learner runs`, `league learner run` and `league learner compare-runs`."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from league import wire
from league.cli.connection import AnyEnvironment, AsJson, Cursor, Limit, Token, Url, connect
from league.cli.output import tables
from league.cli.output.grid import Grid, record
from league.client import DEFAULT_URL
from league.run_text import flatten, host, json_text, revision

app = typer.Typer()

RunArgument = Annotated[int, typer.Argument(metavar="RUN", help="Id of a run, as listed by `league learner runs`.")]


@app.command(epilog="Example: league learner runs --environment mech-duel")
def runs(
    environment: AnyEnvironment = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """List the training processes of learners, newest first.

    --json also prints their settings and origin.
    """
    with connect(url, token) as client:
        page = client.runs(environment, limit=limit, cursor=cursor)
    tables.show_page(page, as_json, run_grid(page.items))


@app.command(epilog="Example: league learner run 3")
def run(run_id: RunArgument, as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None) -> None:
    """Show a training process: its settings, seed, command, git revision and machine."""
    with connect(url, token) as client:
        one = client.show_run(run_id)
    if as_json:
        tables.show_json(one)
    else:
        tables.show(record(description(one)))


@app.command("compare-runs", epilog="Example: league learner compare-runs 3 7")
def compare_runs(
    first: RunArgument,
    second: Annotated[int, typer.Argument(metavar="OTHER", help="Id of the other run.")],
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show the settings, versions and machine in which two training processes differ."""
    with connect(url, token) as client:
        found = client.compare_runs(first, second)
    if as_json:
        tables.show_json(found)
    else:
        tables.show(difference_grid(found.differences, first, second))


def run_grid(rows: Sequence[wire.Run]) -> Grid:
    """Return a table of runs."""
    return Grid(
        [["run"], ["started", "learner", "environment"], ["from step", "snapshots"], ["revision", "host", "seed"]],
        [
            [
                *(str(row.id), tables.moment(row.started_at), row.learner, row.environment),
                *(f"{row.step:,}", str(row.snapshots), revision(row), host(row)),
                json_text(row.seed),
            ]
            for row in rows
        ],
        "no runs; `trainer run` and `league.client.attach` store one when they start",
    )


def difference_grid(rows: Iterable[wire.RunDifference], first: int, second: int) -> Grid:
    """Return a table of the differences between two runs."""
    return Grid(
        [[], ["name", f"run {first}", f"run {second}"]],
        [[row.name, json_text(row.first), json_text(row.second)] for row in rows],
        f"runs {first} and {second} have the same settings and origin",
    )


def description(one: wire.Run) -> dict[str, str]:
    """Return the fields of a run, with one line per setting."""
    fields = {
        "run": str(one.id),
        "learner": f"{one.learner}, player {one.player_id}",
        "environment": one.environment,
        "started": tables.moment(one.started_at),
        "from step": f"{one.step:,}",
        "snapshots": str(one.snapshots),
        "seed": json_text(one.seed),
        "revision": revision(one),
    }
    details = {**dict(flatten(one.origin)), **dict(flatten(one.settings))}
    return fields | {name: json_text(value) for name, value in details.items()}
