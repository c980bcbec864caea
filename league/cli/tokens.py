"""Make, list, renew and revoke the bearer tokens that close a league; works on its database, where the server runs."""

import re
import shlex
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import typer

from league.auth import Scope
from league.cli import database, tables
from league.cli.connection import AsJson
from league.cli.database import DatabaseUrl, Home, person
from league.config import Settings
from league.services import learners, ownership, tokens

app = typer.Typer(help="Make, list, renew and revoke bearer tokens, on the league's database.", no_args_is_help=True)

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}

TokenName = Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is; the event log names it.")]
ScopeName = Annotated[
    Literal["read", "worker", "admin"],
    typer.Option("--scope", help="What it may do; each scope holds those before it."),
]
Expiry = Annotated[
    str | None,
    typer.Option(
        "--expires",
        metavar="WHEN",
        help="Its end: 12h, 30d, 8w, or a date or time, without a zone this machine's. Never if not given.",
    ),
]


@app.command(epilog="Example: league token create laptop --scope worker --expires 90d")
def create(
    name: TokenName,
    scope: ScopeName,
    expires: Expiry = None,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a token and print it, once: only its hash is kept. The first token closes the league."""
    now = datetime.now(UTC)
    expires_at = end_of(expires, now)
    settings = Settings.load(home=home, database_url=database_url)
    database.migrate(settings)
    with database.connected(settings) as connection, connection.write() as session:
        secret = tokens.create(session, name, scope, now, actor=person(), expires_at=expires_at)
        unowned = ownership.unowned(session) if scope == Scope.WORKER.word else []
    _show({"name": name, "scope": scope, "token": secret, "expires_at": expires_at}, as_json=as_json)
    for environment, learner in unowned:
        given = shlex.join(["league", "token", "assign", name, learner, "--environment", environment])
        typer.echo(f"learner {learner} of {environment} is nobody's: `{given}` makes it this token's", err=True)


@app.command(epilog="Example: league token renew laptop --expires 90d")
def renew(
    name: TokenName,
    expires: Expiry = None,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Give a token a new secret and print it, once; the old one ends. Its workers and learners stay its own."""
    now = datetime.now(UTC)
    expires_at = end_of(expires, now)
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.write() as session:
        secret = tokens.renew(session, name, now, actor=person(), expires_at=expires_at)
    _show({"name": name, "token": secret, "expires_at": expires_at}, as_json=as_json)


@app.command(epilog="Example: league token assign laptop main --environment mech-duel")
def assign(
    name: TokenName,
    learner: Annotated[str, typer.Argument(metavar="LEARNER", help="Name of the learner.")],
    environment: Annotated[
        str | None, typer.Option("--environment", help="The learner's game; may be left out where there is only one.")
    ] = None,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Give a learner to a worker token, which alone then writes for it; also one that was made in an open league."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.write() as session:
        game = environment or learners.only_environment(session)
        ownership.assign(session, name, game, learner, actor=person(), now=datetime.now(UTC))
    typer.echo(f"{learner} of {game} is {name}'s")


@app.command("list", epilog="Example: league token list")
def list_tokens(as_json: AsJson = False, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """List all tokens by name, those that ended too, with when each was last used."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.read() as session:
        rows = tokens.listing(session)
    if as_json:
        tables.show_json({"items": rows, "next_cursor": None})
    else:
        tables.show(tables.tokens(rows))


@app.command(epilog="Example: league token revoke laptop")
def revoke(name: TokenName, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """End a token; servers hear of it within a second. Revoking the last one leaves the league closed."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.write() as session:
        tokens.revoke(session, name, datetime.now(UTC), actor=person())
    typer.echo(f"revoked {name}")


def end_of(expires: str | None, now: datetime) -> datetime | None:
    """Read when a token ends: so many hours, days or weeks from now, or a time, this machine's without a zone."""
    if expires is None:
        return None
    span = re.fullmatch(r"([1-9][0-9]{0,4})([hdw])", expires)
    if span is not None:
        return now + int(span[1]) * _UNITS[span[2]]
    try:
        return datetime.fromisoformat(expires).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"{expires!r} is no time; say 12h, 30d, 8w, or a date such as 2030-01-31") from error


def _show(issued: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        tables.show_json(issued)
        return
    typer.echo(issued["token"])
    typer.echo("keep it: nobody can read it again; programs take it from LEAGUE_TOKEN", err=True)
