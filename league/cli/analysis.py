"""`league player superiority` and `league player regressions`."""

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


@app.command(epilog="Example: league player superiority --environment mech-duel --limit 10")
def superiority(
    environment: Environment = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="Number of players, strongest first.")] = 20,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show the probability that each player is stronger than the next one.

    The probabilities come from one fit to all rating matches of frozen players. The 95 % interval contains the true
    strength 19 times out of 20. The last two columns are the probabilities that a player is stronger than the next
    player and than the first player.
    """
    with connect(url, token) as client:
        order = client.superiority(environment, limit)
    if as_json:
        tables.show_json(order)
    else:
        tables.show(superiority_grid(order))


def superiority_grid(order: wire.Superiority) -> Grid:
    """Return a table of frozen players with 95 % intervals and superiority over the next and the first player."""
    ranked = enumerate(zip(order.players, order.ratings, order.low, order.high, order.superiority, strict=True))
    return Grid(
        [["rank", "id"], ["player"], ["rating", "95 % interval", "above next", "above first"]],
        [
            [
                *(str(index + 1), str(player.player_id), player.name, f"{rating:.0f}", f"{low:.0f} to {high:.0f}"),
                tables.share(above[index + 1]) if index + 1 < len(above) else tables.NONE,
                tables.share(above[0]) if index else tables.NONE,
            ]
            for index, (player, rating, low, high, above) in ranked
        ],
        "no rated matches of frozen players; `trainer evaluate` plays them",
        order.environment,
    )


@app.command(epilog="Example: league player regressions --environment mech-duel")
def regressions(
    environment: AnyEnvironment = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """List main learners that lose to snapshots that they used to defeat.

    `league admin log` shows when the server found each of them.
    """
    with connect(url, token) as client:
        page = client.regressions(environment)
    tables.show_page(page, as_json, regressions_grid(page.items))


def regressions_grid(rows: Iterable[wire.Regression]) -> Grid:
    """Return a table of regressions."""
    return Grid(
        [[], ["learner", "environment", "loses to"], ["score before", "score now"], ["since"]],
        [
            [
                *(row.learner.name, row.environment, row.opponent.name),
                *(score(row.earlier), score(row.recent), moment(row.since)),
            ]
            for row in rows
        ],
        "no regressions",
    )


def score(one: wire.Score) -> str:
    """Format a mean score with its 95 % interval and number of matches."""
    return f"{one.score:.2f} [{one.low:.2f}, {one.high:.2f}] of {one.matches}"
