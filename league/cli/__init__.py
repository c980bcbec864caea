"""The `league` command: run a league on this machine, look into one anywhere, and look after its population."""

import sys
from collections.abc import Sequence

import typer

from league.cli import (
    exchange,
    lifecycle,
    matchmaking,
    operations,
    players,
    retention,
    serve,
    storage,
    superiority,
    tokens,
    workers,
)
from league.cli.up import command as up
from league.errors import ConfigurationError, LeagueError

BAD_USAGE = 2

app = typer.Typer(
    name="league",
    help="A self-play league: its server, its population, its ratings.",
    epilog="Example: league up",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for part in (up, serve, players, matchmaking, lifecycle, operations, storage, exchange, retention, superiority):
    app.registered_commands.extend(part.app.registered_commands)
app.add_typer(tokens.app, name="token")
app.add_typer(workers.app, name="workers")
app.add_typer(operations.db, name="db")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; what a user can cause ends as one line on stderr.

    Exits with 0, with 2 for bad usage or an unusable setting, and with 1 for any other error.
    """
    try:
        app(arguments)
    except LeagueError as error:
        typer.echo(f"league: {error}", err=True)
        sys.exit(BAD_USAGE if isinstance(error, ConfigurationError) else 1)
