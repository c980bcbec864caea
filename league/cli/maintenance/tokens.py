"""Make, list, renew and revoke the bearer tokens that close a league; works on its database, where the server runs."""

import re
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from sqlalchemy.orm import Session

from league import private_files
from league.auth import Scope, is_secret
from league.cli.connection import AsJson
from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home, person
from league.cli.output import tables
from league.cli.output.durations import UNITS
from league.cli.output.grid import Grid
from league.errors import ConfigurationError
from league.services.auth import ownership, tokens
from league.services.auth.tokens import TokenListing
from league.services.environments import lookup as environments
from league.services.unplayable_reports import false_reports
from league.settings import Settings

app = typer.Typer(help="Create, list, renew and revoke tokens.", no_args_is_help=True)

_ANOTHER_FILE = "name another file, or delete that one"

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
KeptIn = Annotated[
    Path | None,
    typer.Option(
        "--to", metavar="FILE", help="Write the token there, for its owner alone, for programs with LEAGUE_TOKEN_FILE."
    ),
]
GivenIn = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Take the token from this file instead of making one: 43 random letters, digits, `-` and `_`.",
    ),
]


@app.command(epilog="Example: league token create laptop --scope worker --expires 90d")
def create(
    name: TokenName,
    scope: ScopeName,
    expires: Expiry = None,
    to: KeptIn = None,
    given_in: GivenIn = None,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a token and print it, once: only its hash is kept. The first token closes the league.

    With --to or --from nothing is done where the file holds this token already: what starts a league may run it every
    time.
    """
    if to is not None and given_in is not None:
        raise typer.BadParameter("--from names a file with the token, and --to one to write it to: give one of them")
    now = datetime.now(UTC)
    given = None if given_in is None else _read(given_in)
    expires_at = end_of(expires, now)
    settings = Settings.load(home=home, database_url=database_url)
    database.migrate(settings)
    with database.connected(settings) as connection, connection.write() as session:
        if to is not None and _holds(session, to, name):
            typer.echo(f"{to} holds the token {name} already", err=True)
            return
        if given_in is not None and _holds(session, given_in, name):
            typer.echo(f"the league has the token {name} of {given_in} already", err=True)
            return
        secret = tokens.create(session, name, scope, now, actor=person(), expires_at=expires_at, secret=given)
        unowned = ownership.unowned(session) if scope == Scope.WORKER.word else []
        _keep(to, secret)
    _show({"name": name, "scope": scope, "token": secret, "expires_at": expires_at}, to or given_in, as_json=as_json)
    for environment, learner in unowned:
        given = shlex.join(["league", "token", "assign", name, learner, "--environment", environment])
        typer.echo(f"learner {learner} of {environment} is nobody's: `{given}` makes it this token's", err=True)


@app.command(epilog="Example: league token renew laptop --expires 90d")
def renew(
    name: TokenName,
    expires: Expiry = None,
    to: KeptIn = None,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Give a token a new secret and print it, once; the old one ends. Its workers and learners stay its own."""
    now = datetime.now(UTC)
    expires_at = end_of(expires, now)
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.write() as session:
        if to is not None:
            _holds(session, to, name)
        secret = tokens.renew(session, name, now, actor=person(), expires_at=expires_at)
        _keep(to, secret)
    _show({"name": name, "token": secret, "expires_at": expires_at}, to, as_json=as_json)


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
        game = environment or environments.only(session)
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
        tables.show(grid(rows))


@app.command(epilog="Example: league token revoke laptop")
def revoke(name: TokenName, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """End a token; servers hear of it within a second. Revoking the last one leaves the league closed."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.write() as session:
        tokens.revoke(session, name, datetime.now(UTC), actor=person())
    typer.echo(f"revoked {name}")


@app.command(epilog="Example: league token clear laptop")
def clear(name: TokenName, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Count a token's reports of unplayable players again, after some of them proved false."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.write() as session:
        count = false_reports.clear(session, name, actor=person(), now=datetime.now(UTC))
    typer.echo(f"cleared {name} of {count} false report{'' if count == 1 else 's'}")


def end_of(expires: str | None, now: datetime) -> datetime | None:
    """Read when a token ends: so many hours, days or weeks from now, or a time, this machine's without a zone."""
    if expires is None:
        return None
    span = re.fullmatch(r"([1-9][0-9]{0,4})([hdw])", expires)
    if span is not None:
        return now + int(span[1]) * UNITS[span[2]]
    try:
        return datetime.fromisoformat(expires).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"{expires!r} is no time; say 12h, 30d, 8w, or a date such as 2030-01-31") from error


def _holds(session: Session, file: Path, name: str) -> bool:
    """Say whether a file holds this token; one that is not there, or holds what no league knows, may be written.

    Raises:
        ConfigurationError: It holds another token of the league, or something else.
    """
    if not file.exists():
        return False
    owner = tokens.name_of(session, _read(file))
    if owner not in (None, name):
        raise ConfigurationError(f"file {file}", f"the file holds the token {owner}", _ANOTHER_FILE)
    return owner == name


def _read(file: Path) -> str:
    """Read a token from a file.

    Raises:
        ConfigurationError: The file cannot be read, or holds something else.
    """
    kept = private_files.read_private(file, f"file {file}")
    if not is_secret(kept):
        rule = "the file holds something that is no token: 43 letters, digits, `-` and `_`"
        raise ConfigurationError(f"file {file}", rule, _ANOTHER_FILE)
    return kept


def _keep(file: Path | None, secret: str) -> None:
    """Write the secret down before the league knows it: what fails here is no token that nobody has."""
    if file is None:
        return
    try:
        private_files.write_private(file, secret)
    except OSError as error:
        rule = f"the file cannot be written ({error.strerror})"
        raise ConfigurationError(f"--to {file}", rule, "name a file in a folder that this user may write") from error


def _show(issued: dict[str, Any], file: Path | None, *, as_json: bool) -> None:
    if as_json:
        tables.show_json({key: value for key, value in issued.items() if file is None or key != "token"})
    elif file is None:
        typer.echo(issued["token"])
        typer.echo("keep it: nobody can read it again; programs take it from LEAGUE_TOKEN", err=True)
    else:
        typer.echo(f"{file} holds the token {issued['name']}; programs take it from LEAGUE_TOKEN_FILE", err=True)


def grid(rows: Iterable[TokenListing]) -> Grid:
    """Make a list of tokens."""
    return Grid(
        [[], ["token", "scope", "created", "last used", "expires", "revoked", "false reports"]],
        [
            [
                *(row.name, row.scope),
                *map(_moment, (row.created_at, row.used_at, row.expires_at, row.revoked_at)),
                str(row.false_reports or tables.NONE),
            ]
            for row in rows
        ],
        "no token exists, so the league is open to this machine; `league token create NAME --scope admin` closes it",
    )


def _moment(at: datetime | None) -> str:
    return tables.NONE if at is None else tables.moment(at)
