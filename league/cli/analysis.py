"""`league superiority` and `league regressions`."""

from collections.abc import Iterable
from typing import Annotated

import typer

from league import wire
from league.cli.connection import AnyEnvironment, AsJson, Environment, Token, Url, connect
from league.cli.output import tables
from league.cli.output.grid import Grid
from league.cli.output.tables import moment
from league.client import DEFAULT_URL

app = typer.Typer()


@app.command(epilog="Example: league superiority --environment mech-duel --limit 10")
def superiority(
    environment: Environment = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="The strongest so many.")] = 20,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show the probability that each player is stronger than the next one.

    It is computed from all rating matches of frozen players at once. The interval holds the true strength 19 times out
    of 20. The last columns are the probabilities that a player is stronger than the one on the next line, and than the
    first one.
    """
    with connect(url, token) as client:
        order = client.superiority(environment, limit)
    if as_json:
        tables.show_json(order)
    else:
        tables.show(superiority_grid(order))


def superiority_grid(order: wire.Superiority) -> Grid:
    """Make a table of the frozen players with 95 % bands, each beside the next one and the first."""
    places = enumerate(zip(order.players, order.ratings, order.low, order.high, order.superiority, strict=True))
    return Grid(
        [["rank", "id"], ["player"], ["rating", "95 % band", "above next", "above first"]],
        [
            [
                *(str(place + 1), str(player.player_id), player.name, f"{rating:.0f}", f"{low:.0f} to {high:.0f}"),
                tables.share(above[place + 1]) if place + 1 < len(above) else tables.NONE,
                tables.share(above[0]) if place else tables.NONE,
            ]
            for place, (player, rating, low, high, above) in places
        ],
        "no rating match of frozen players was rated yet; `trainer evaluate` plays them",
        order.environment,
    )


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
    tables.show_page(page, as_json, regressions_grid(page.items))


def regressions_grid(rows: Iterable[wire.Regression]) -> Grid:
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
