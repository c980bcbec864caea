"""`league standings`, `league environment champion`, `league players` and `league show`."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.table import Table

from league import wire
from league.cli.connection import (
    AsJson,
    Cursor,
    Environment,
    Limit,
    PlayerArgument,
    Token,
    Url,
    champion_of,
    connect,
)
from league.cli.maintenance import audit
from league.cli.output import tables
from league.cli.output.grid import Grid, record
from league.client import DEFAULT_URL

app = typer.Typer()

Standing = Annotated[wire.Standing | None, typer.Option("--standing", help="Only snapshots in this standing.")]


@app.command(epilog="Example: league standings --environment mech-duel --limit 10")
def standings(
    environment: Environment = None,
    standing: Standing = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_of: Annotated[int | None, typer.Option("--as-of", metavar="PERIOD", help="After the period of this id.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Print the standings, now or after any past rating period.

    A rating stands for the expected score against the current population. Players are ranked by rating - 2 RD, a lower
    bound of their strength with a confidence of about 98 %.
    """
    with connect(url, token) as client:
        page = client.standings(environment, standing=standing, limit=limit, cursor=cursor, as_of=as_of)
        champion = None if as_json or as_of is not None else champion_of(client, environment)
    grid = tables.standings(page.items, page.items[0].environment if page.items else None)
    tables.show_page(page, as_json, grid, tables.explain_marks(page.items))
    if champion is not None:
        tables.show(champion_line(champion))


@app.command(epilog="Example: league environment champion --environment mech-duel --history")
def champion(
    environment: Environment = None,
    history: Annotated[bool, typer.Option("--history", help="List all champions with date and reason.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show the champion of an environment, or all of its champions.

    `league promote PLAYER --champion` makes a champion. The promotion rule may also do so after a rating period.
    """
    with connect(url, token) as client:
        if history:
            page = client.champions(environment, limit=limit, cursor=cursor)
            tables.show_page(page, as_json, champion_grid(page.items))
            return
        one = client.champion(environment)
    if as_json:
        tables.show_json(one)
    else:
        tables.show(description(one.player), champion_line(one))


@app.command(epilog="Example: league players --kind snapshot --standing commander")
def players(
    environment: Environment = None,
    kind: Annotated[wire.Kind | None, typer.Option("--kind", help="Only players of this kind.")] = None,
    standing: Standing = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only players with this tag.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """List players by id: learners, snapshots and baselines."""
    with connect(url, token) as client:
        page = client.players(environment, standing, kind, limit, cursor, tag=tag)
    tables.show_page(page, as_json, player_grid(page.items), tables.explain_marks(page.items))


@app.command(epilog="Example: league show 7")
def show(
    player: PlayerArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of rows per table.")] = 10,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show one player: its latest ratings and matches, and its audit log."""
    with connect(url, token) as client:
        one = client.player(player)
        curve = list(deque(client.iter_ratings(one.id), maxlen=limit))
        matches = client.matches(one.id, limit=limit).items
        changes = client.events(player=one.id, limit=limit).items
        reports = client.reports(one.id, limit=limit).items
    if as_json:
        tables.show_json({"player": one, "ratings": curve, "matches": matches, "events": changes, "reports": reports})
    else:
        curve_table, match_table = rating_grid(curve, "rating periods"), match_grid(matches, "latest matches")
        change_table = audit.grid(changes, "none", "latest changes")
        report_tables = [report_grid(reports, "reported as unplayable")] if reports else []
        tables.show(description(one), *report_tables, curve_table, match_table, change_table)


def champion_line(one: wire.Champion) -> str:
    """Return the champion with the start of its reign as one line."""
    holder = f"{tables.display_name(one.player)}, id {one.player.id}"
    return f"champion of {one.environment}: {holder}, since {tables.moment(one.since)} by {one.actor}"


def champion_grid(rows: Iterable[wire.ChampionChange]) -> Grid:
    """Return a table of champions, newest first."""
    return Grid(
        [["number"], ["since", "player"], ["id"], ["by", "reason"]],
        [
            [
                *(str(row.number), tables.moment(row.since)),
                *((tables.NONE, tables.NONE) if row.player is None else (row.player.name, str(row.player.player_id))),
                *(row.actor, row.reason),
            ]
            for row in rows
        ],
        "no champion yet; `league promote PLAYER --champion` sets one",
    )


def player_grid(rows: Sequence[wire.Player]) -> Grid:
    """Return a table of players; a single environment becomes the title."""
    environments = {row.environment for row in rows}
    several = len(environments) > 1
    return Grid(
        [
            ["id"],
            ["player", *(["environment"] if several else []), "kind", "standing"],
            ["rating ± 2 RD", "RD", "games", "step"],
        ],
        [
            [
                *(str(row.id), tables.display_name(row), *([row.environment] if several else [])),
                *(row.kind, row.standing or tables.NONE, tables.rating(row), f"{row.deviation:.0f}", str(row.games)),
                tables.NONE if row.step is None else f"{row.step:,}",
            ]
            for row in rows
        ],
        "no players; `trainer run` registers a learner and the environment's scripted players",
        environments.pop() if len(environments) == 1 else None,
    )


def rating_grid(rows: Iterable[wire.RatingPoint], title: str) -> Grid:
    """Return a table of ratings, one row per rating period; `league standings --as-of` takes the period's id."""
    return Grid(
        [["period"], ["closed"], ["rating ± 2 RD", "RD", "volatility", "games"]],
        [
            [
                *(str(row.period_id), tables.moment(row.closed_at), tables.interval(row.rating, row.deviation)),
                *(f"{row.deviation:.0f}", f"{row.volatility:.4f}", str(row.games)),
            ]
            for row in rows
        ],
        "none yet; `league close-period` closes one now",
        title,
    )


def match_grid(rows: Iterable[wire.Match], title: str) -> Grid:
    """Return a table of matches; the score is that of the home player."""
    return Grid(
        [["match"], ["reported", "kind", "home - away"], ["score", "steps"], ["ended by"]],
        [
            [
                *(str(row.id), tables.moment(row.reported_at), row.kind, f"{row.home.name} - {row.away.name}"),
                *(f"{row.score:g}", str(row.decisions), row.reason),
            ]
            for row in rows
        ],
        "none yet; a trainer or `trainer evaluate` plays them",
        title,
    )


def report_grid(rows: Iterable[wire.PlayerReport], title: str) -> Grid:
    """Return a table of unplayable reports."""
    return Grid(
        [[], ["reported", "token", "worker", "state", "reason"]],
        [
            [
                *(tables.moment(row.reported_at), row.token or tables.NONE, row.worker, row.resolution or "open"),
                row.reason,
            ]
            for row in rows
        ],
        "none",
        title,
    )


def description(one: wire.Player) -> Table:
    """Return the description of one player."""
    strength = tables.interval(one.rating, one.deviation)
    strength += f"{' (provisional)' if one.provisional else ''}, volatility {one.volatility:.4f}"
    if one.rating_misleads:
        strength += "; it does not predict the results against single opponents"
    optional = {
        "role": one.role,
        "standing": one.standing,
        "not promoted yet": one.promotion_status,
        "checkpoint": one.checkpoint,
        "step": one.step,
        "run": one.run_id,
        "learner": one.learner_id,
        "parent": one.parent_id,
    }
    fields = {
        "player": f"{one.id}  {tables.display_name(one)}",
        "kind": one.kind,
        **{name: value for name, value in optional.items() if value is not None},
        "environment": f"{one.environment}  {one.signature}",
        "rating ± 2 RD": strength,
        **{f"  {each.side}, as {each.name}": _on_side(each) for each in one.sides},
        "games": one.games,
        "created": tables.moment(one.created_at),
        **({"tags": ", ".join(one.tags)} if one.tags else {}),
        **({"note": one.note} if one.note else {}),
        **{name: value for name, value in one.metadata.items() if value is not None},
    }
    return record({name: str(value) for name, value in fields.items()})


def _on_side(rated: wire.SideRating) -> str:
    games = f"{rated.games} games, win rate {tables.share(rated.win_rate)}"
    return f"{tables.interval(rated.rating, rated.deviation)}, {games}"
