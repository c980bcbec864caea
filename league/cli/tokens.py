"""Make, list and revoke the bearer tokens that close a league; works on its database, where the server runs."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from league.cli import database, tables
from league.cli.connection import AsJson
from league.cli.database import DatabaseUrl, Home
from league.config import Settings
from league.services import tokens

app = typer.Typer(help="Make, list and revoke bearer tokens, on the league's database.", no_args_is_help=True)

TokenName = Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is; the event log names it.")]
ScopeName = Annotated[
    Literal["read", "worker", "admin"],
    typer.Option("--scope", help="What it may do; each scope holds those before it."),
]


@app.command(epilog="Example: league token create laptop --scope worker")
def create(
    name: TokenName, scope: ScopeName, as_json: AsJson = False, home: Home = None, database_url: DatabaseUrl = None
) -> None:
    """Make a token and print it, once: only its hash is kept. The first token closes the league."""
    settings = Settings.load(home=home, database_url=database_url)
    database.migrate(settings)
    with database.connected(settings) as connection, connection.write() as session:
        secret = tokens.create(session, name, scope, datetime.now(UTC))
    if as_json:
        tables.show_json({"name": name, "scope": scope, "token": secret})
        return
    typer.echo(secret)
    typer.echo("keep it: nobody can read it again; programs take it from LEAGUE_TOKEN", err=True)


@app.command("list", epilog="Example: league token list")
def list_tokens(as_json: AsJson = False, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """List all tokens by name, the revoked ones too."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.read() as session:
        rows = tokens.listing(session)
    if as_json:
        tables.show_json({"items": rows, "next_cursor": None})
    else:
        tables.show(tables.tokens(rows))


@app.command(epilog="Example: league token revoke laptop")
def revoke(name: TokenName, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """End a token for good. Revoking the last one leaves the league closed."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.write() as session:
        tokens.revoke(session, name, datetime.now(UTC))
    typer.echo(f"revoked {name}")
