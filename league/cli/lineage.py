"""`league lineage`: where a player comes from."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from league import wire
from league.cli import tables
from league.cli.connection import AsJson, Token, Url, Who, connect, find_player
from league.cli.gates import lead
from league.client import DEFAULT_URL

app = typer.Typer()


@app.command(epilog="Example: league lineage main")
def lineage(
    player: Who,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Most generations.")] = 50,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where a page ended.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Show where a player comes from: its parents up to the first, their ratings, and the gates that they stood."""
    with connect(url, token) as client:
        page = client.lineage(find_player(client, player).id, limit=limit, cursor=cursor)
    if as_json:
        tables.show_json(page)
    else:
        more = [] if page.next_cursor is None else [f"older ones: --cursor {page.next_cursor}"]
        tables.show(*tree(page.items, whole=page.next_cursor is None), *more)


def tree(line: Sequence[wire.Ancestor], *, whole: bool) -> Iterator[str]:
    """Draw a lineage, a player a line, the youngest on top; `whole` says that it ends with the root."""
    for place, ancestor in enumerate(line):
        root = whole and place == len(line) - 1
        yield f"{'╰' if root else '├'}─ {_player(ancestor.player)}"
        for gate in ancestor.gates:
            yield f"{' ' if root else '│'}    gate {gate.id} {_gate(gate)}"


def _player(one: wire.Player) -> str:
    parts = [one.kind if one.standing is None else one.standing, tables.rating(one), f"{one.games} games"]
    parts += [] if one.step is None else [f"step {one.step:,}"]
    return f"{tables.display_name(one)}, id {one.id}: {', '.join(parts)}"


def _gate(one: wire.Gate) -> str:
    told = f"against {one.champion.name}: {one.state}, {one.games} games"
    return f"{told}, lead {lead(one)}" if one.games else told
