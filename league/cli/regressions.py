"""`league regressions`: whom main learners used to beat and now lose to."""

from collections.abc import Iterable

import typer

from league import wire
from league.cli.connection import AnyEnvironment, AsJson, Token, Url, connect
from league.cli.output import tables
from league.cli.output.grid import Grid
from league.cli.output.tables import moment
from league.client import DEFAULT_URL

app = typer.Typer()


@app.command(epilog="Example: league regressions --environment mech-duel")
def regressions(
    environment: AnyEnvironment = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """List main learners that lose to snapshots that they used to beat.

    `league log` shows when each was found.
    """
    with connect(url, token) as client:
        page = client.regressions(environment)
    tables.show_page(page, as_json, grid(page.items))


def grid(rows: Iterable[wire.Regression]) -> Grid:
    """Make a list of regressions."""
    return Grid(
        [[], ["learner", "environment", "loses to"], ["score before", "score now"], ["since"]],
        [
            [
                *(row.learner.name, row.environment, row.opponent.name),
                *(score(row.earlier), score(row.recent), moment(row.since)),
            ]
            for row in rows
        ],
        "no main learner loses to a snapshot that it used to beat",
    )


def score(one: wire.Score) -> str:
    """Write a mean score with its 95 % interval and the number of matches behind it."""
    return f"{one.score:.2f} [{one.low:.2f}, {one.high:.2f}] of {one.matches}"
