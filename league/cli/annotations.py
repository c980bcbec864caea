"""`league player annotate`."""

from typing import Annotated

import typer

from league.cli.connection import AsJson, PlayerArgument, Token, Url, connect
from league.cli.output import tables
from league.cli.output.grid import record
from league.client import DEFAULT_URL

app = typer.Typer()


@app.command(epilog='Example: league player annotate main@65536 --tag paper --note "figure 3"')
def annotate(
    player: PlayerArgument,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Tag to add. May be repeated.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", help="Tag to remove. May be repeated.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="New note. An empty one removes it.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Add or remove tags of a player or learner, or set its note.

    `league players --tag` and the search on the standings page find players by tag.
    """
    with connect(url, token) as client:
        found = client.player(player)
        tags = (set(found.tags) | set(tag or ())) - set(remove or ())
        changed = client.annotate(found.id, sorted(tags) if tag or remove else None, note)
    if as_json:
        tables.show_json(changed)
    else:
        shown = {"player": tables.display_name(changed), "tags": ", ".join(changed.tags), "note": changed.note or ""}
        tables.show(record({name: value or tables.NONE for name, value in shown.items()}))
