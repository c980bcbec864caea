"""`league admin log`: print the audit log."""

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from league import wire
from league.cli.connection import AsJson, Cursor, Environment, Limit, Token, Url, connect
from league.cli.output import tables
from league.cli.output.grid import Grid
from league.client import DEFAULT_URL

app = typer.Typer()

_NOTHING_LOGGED = "no matching events; --periods includes closed rating periods"


@app.command(epilog="Example: league admin log 7")
def log(
    player: Annotated[
        str | None, typer.Argument(metavar="[PLAYER]", help="Only events of this player: its id, call sign or name.")
    ] = None,
    environment: Environment = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Only events of this kind, such as promote.")] = None,
    periods: Annotated[bool, typer.Option("--periods", help="Include closed rating periods.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Print the audit log, newest first: each change with its time, author and reason."""
    with connect(url, token) as client:
        player_id = None if player is None else client.player(player).id
        page = client.events(environment, player_id, kind, periods=periods, limit=limit, cursor=cursor)
    tables.show_page(page, as_json, grid(page.items, _NOTHING_LOGGED))


def grid(rows: Iterable[wire.Event], nothing: str, title: str | None = None) -> Grid:
    """Return a table of the audit log, or `nothing` if it is empty; a single environment becomes the title."""
    lines = list(rows)
    environments = {row.environment for row in lines}
    several = len(environments) > 1
    return Grid(
        [["event"], ["when", *(["environment"] if several else []), "what", "by", "reason and details"]],
        [
            [
                *(str(row.id), tables.moment(row.created_at), *([row.environment or tables.NONE] if several else [])),
                row.kind if row.player_id is None else f"{row.kind} player {row.player_id}",
                *(row.actor, "; ".join(part for part in (row.reason, _details(row)) if part)),
            ]
            for row in lines
        ],
        nothing,
        title if several or not lines else title or environments.pop(),
    )


def _details(event: wire.Event) -> str:
    """Format an event's details without columns of numbers, which only --json prints."""
    shown = {name: value for name, value in event.details.items() if value is not None and not _has_columns(value)}
    return _named(shown)


def _named(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {_in_words(value)}" for name, value in values.items())


def _in_words(value: object) -> str:
    """Format a value with four significant digits and nested values in brackets."""
    if isinstance(value, Mapping):
        return f"({_named(value)})"
    if isinstance(value, list):
        return f"({', '.join(map(_in_words, value))})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    return str(value)


def _has_columns(value: object) -> bool:
    return isinstance(value, Mapping) and any(isinstance(each, list) for each in value.values())
