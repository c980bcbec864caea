"""Look at the lineages that are trained."""

import typer

from league.cli import tables
from league.cli.connection import AsJson, Environment, Token, Url, connect
from league.cli.players import Cursor, Limit
from league.client import DEFAULT_URL

app = typer.Typer()


@app.command(epilog="Example: league learners --environment mech-duel")
def learners(
    environment: Environment = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """List lineages by id: role, how far each has come, and how often it began anew; --json has all its numbers."""
    with connect(url, token) as client:
        page = client.learners(environment, limit=limit, cursor=cursor)
    tables.show_page(page, as_json, tables.learners(page.items))
