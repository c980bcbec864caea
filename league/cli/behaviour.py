"""`league player compare`: compare how players behave."""

from typing import Annotated

import typer

from league import wire
from league.cli.connection import AsJson, PlayerArgument, Token, Url, connect
from league.cli.output import tables
from league.cli.output.grid import Grid
from league.client import DEFAULT_URL

app = typer.Typer()

_NOT_MEASURED = "no measurements up to the last rating period; `trainer evaluate` takes them"


@app.command("compare", epilog="Example: league player compare main-5 main-6")
def compare(
    player: PlayerArgument,
    other: Annotated[
        str | None, typer.Argument(metavar="[OTHER]", help="Player to compare with: its id, call sign or name.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Number of similar players to list.")] = 5,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Compare how players behave: one player with all others, or two players.

    A measure without a unit is a share. `sd` is the distance in standard deviations over all players, corrected for
    sampling noise. It is empty if the difference is not significant.
    """
    with connect(url, token) as client:
        first = client.player(player).id
        if other is None:
            one, two = client.fingerprint(first, limit), None
        else:
            second = client.player(other).id
            one, two = client.fingerprint(first, other=second), client.fingerprint(second, other=first)
    if as_json:
        tables.show_json(one if two is None else {"player": one, "other": two})
    elif two is None:
        tables.show(measures(one), nearest(one))
    else:
        tables.show(side_by_side(one, two), difference(one, two))


def measures(one: wire.Fingerprint) -> Grid:
    """Return a table of a player's measures."""
    return Grid(
        [["measure"], [], ["mean", "± 2 se", "all players", "sd above", "matches"]],
        [
            [
                *(row.name, _number(row.mean), _twice(row.error), _number(row.population_mean)),
                *(_signed(row.z_score), str(row.matches)),
            ]
            for row in one.measures
        ],
        _NOT_MEASURED,
        f"{one.player.name} of {one.environment}, compared with {one.players} other players",
    )


def nearest(one: wire.Fingerprint) -> Grid:
    """Return a table of the most similar players."""
    return Grid(
        [["id"], ["most similar"], ["sd apart", "at most", "measures"]],
        [
            [
                *(str(row.player.player_id), row.player.name),
                *(f"{row.distance:.2f}", f"{row.bound:.2f}", str(row.measures)),
            ]
            for row in one.nearest
        ],
        "no comparable players",
    )


def side_by_side(one: wire.Fingerprint, two: wire.Fingerprint) -> Grid:
    """Return a table of two players' measures."""
    mine, others = ({row.name: row for row in each.measures} for each in (one, two))
    return Grid(
        [["measure"], [], [one.player.name, "± 2 se", two.player.name, "± 2 se", "sd apart"]],
        [
            [name, *_value(mine.get(name)), *_value(others.get(name)), _z_difference(mine.get(name), others.get(name))]
            for name in sorted(mine.keys() | others.keys())
        ],
        _NOT_MEASURED,
        one.environment if one.environment == two.environment else f"{one.environment}, {two.environment}",
    )


def difference(one: wire.Fingerprint, two: wire.Fingerprint) -> str:
    """Return the distance between two players as a sentence."""
    if not one.nearest:
        return f"{one.player.name} and {two.player.name}: no common measure that separates players"
    nearest = one.nearest[0]
    over = f"over {nearest.measures} measures (95 % upper bound {nearest.bound:.2f})"
    return f"{nearest.distance:.2f} standard deviations apart {over}"


def _value(row: wire.MeasuredBehaviour | None) -> tuple[str, str]:
    return (tables.NONE, tables.NONE) if row is None else (_number(row.mean), _twice(row.error))


def _z_difference(one: wire.MeasuredBehaviour | None, two: wire.MeasuredBehaviour | None) -> str:
    """Format how many standard deviations the second value is above the first."""
    if one is None or two is None or one.z_score is None or two.z_score is None:
        return tables.NONE
    return _signed(two.z_score - one.z_score)


def _number(value: float | None) -> str:
    return tables.NONE if value is None else f"{value:.3g}"


def _twice(error: float | None) -> str:
    return tables.NONE if error is None else f"{2.0 * error:.2g}"


def _signed(value: float | None) -> str:
    return tables.NONE if value is None else f"{value:+.2f}"
