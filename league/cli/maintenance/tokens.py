"""`league token`: create, list, renew and revoke bearer tokens; opens the database directly."""

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
from league.cli.maintenance.database import DatabaseUrl, Home, user_name
from league.cli.output import tables
from league.cli.output.durations import UNITS
from league.cli.output.grid import Grid
from league.errors import ConfigurationError
from league.services.audit.log import Cause
from league.services.auth import ownership, tokens
from league.services.auth.tokens import TokenListing
from league.services.environments import lookup as environments
from league.services.unplayable_reports import false_reports
from league.settings import Settings

app = typer.Typer(help="Create, list, renew and revoke tokens.", no_args_is_help=True)

_ANOTHER_FILE = "choose another file, or delete that one"

TokenName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, as shown in the audit log.")]
ScopeName = Annotated[
    Literal["read", "worker", "admin"],
    typer.Option("--scope", help="Permissions. Each scope includes the previous ones."),
]
Expiry = Annotated[
    str | None,
    typer.Option(
        "--expires",
        metavar="WHEN",
        help="When it expires: 12h, 30d, 8w, or a date or time, local without a zone. Default: never.",
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Write the token to this file, readable only by you, for LEAGUE_TOKEN_FILE."
    ),
]
InputFile = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Read the token from this file instead of generating it: 43 random letters, digits, `-` and `_`.",
    ),
]


@app.command(epilog="Example: league token create laptop --scope worker --expires 90d")
def create(
    name: TokenName,
    scope: ScopeName,
    expires: Expiry = None,
    to: OutputFile = None,
    source: InputFile = None,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Create a token and print it once. The league stores only its hash.

    The first token turns authentication on. With --out or --from the command does nothing if the file already contains
    this token, so start scripts may run it every time.
    """
    if to is not None and source is not None:
        raise typer.BadParameter("--from reads the token from a file and --out writes it to one: use one of them")
    now = datetime.now(UTC)
    secret = None if source is None else _read(source)
    expires_at = end_of(expires, now)
    settings = Settings.load(home=home, database_url=database_url)
    database.migrate(settings)
    with database.connected(settings) as connection, connection.write() as session:
        # Idempotent, so that start scripts can run the command every time.
        if to is not None and _contains_token(session, to, name):
            typer.echo(f"{to} already contains the token {name}", err=True)
            return
        if source is not None and _contains_token(session, source, name):
            typer.echo(f"the league already has the token {name} of {source}", err=True)
            return
        secret = tokens.create(session, name, scope, Cause(user_name(), "", now), expires_at=expires_at, secret=secret)
        unowned = ownership.unowned(session) if scope == Scope.WORKER.word else []
        _write_secret(to, secret)
    _show({"name": name, "scope": scope, "token": secret, "expires_at": expires_at}, to or source, as_json=as_json)
    for environment, learner in unowned:
        assign_command = shlex.join(["league", "token", "assign", name, learner, "--environment", environment])
        typer.echo(f"learner {learner} of {environment} has no owner; assign it with `{assign_command}`", err=True)


@app.command(epilog="Example: league token renew laptop --expires 90d")
def renew(
    name: TokenName,
    expires: Expiry = None,
    to: OutputFile = None,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Replace a token's secret and print the new one once. The token keeps its workers and learners."""
    now = datetime.now(UTC)
    expires_at = end_of(expires, now)
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.write() as session:
        if to is not None:
            _contains_token(session, to, name)
        secret = tokens.renew(session, name, Cause(user_name(), "", now), expires_at=expires_at)
        _write_secret(to, secret)
    _show({"name": name, "token": secret, "expires_at": expires_at}, to, as_json=as_json)


@app.command(epilog="Example: league token assign laptop main --environment mech-duel")
def assign(
    name: TokenName,
    learner: Annotated[str, typer.Argument(metavar="LEARNER", help="Name of the learner.")],
    environment: Annotated[
        str | None,
        typer.Option("--environment", help="The learner's environment. Optional if the league has only one."),
    ] = None,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a worker token the owner of a learner, so that only this token may write for it."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.write() as session:
        game = environment or environments.only(session)
        ownership.assign(session, name, game, learner, actor=user_name(), now=datetime.now(UTC))
    typer.echo(f"{name} now owns {learner} of {game}")


@app.command("list", epilog="Example: league token list")
def list_tokens(as_json: AsJson = False, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """List all tokens by name, including expired and revoked ones, with the time of their last use."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.read() as session:
        rows = tokens.listing(session)
    if as_json:
        tables.show_json({"items": rows, "next_cursor": None})
    else:
        tables.show(grid(rows))


@app.command(epilog="Example: league token revoke laptop")
def revoke(name: TokenName, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Revoke a token within a second on all servers. Without valid tokens authentication stays on."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.write() as session:
        tokens.revoke(session, name, Cause(user_name(), "", datetime.now(UTC)))
    typer.echo(f"revoked {name}")


@app.command(epilog="Example: league token clear laptop")
def clear(name: TokenName, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Clear a token's false reports, so that its reports of unplayable players count again."""
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection, connection.write() as session:
        count = false_reports.clear(session, name, Cause(user_name(), "", datetime.now(UTC)))
    typer.echo(f"cleared {name} of {count} false report{'' if count == 1 else 's'}")


def end_of(expires: str | None, now: datetime) -> datetime | None:
    """Parse an expiry time: a span from now in hours, days or weeks, or a time, local without a zone."""
    if expires is None:
        return None
    span = re.fullmatch(r"([1-9][0-9]{0,4})([hdw])", expires)
    if span is not None:
        return now + int(span[1]) * UNITS[span[2]]
    try:
        return datetime.fromisoformat(expires).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(
            f"{expires!r} is not a time: use 12h, 30d, 8w, or a date such as 2030-01-31"
        ) from error


def _contains_token(session: Session, file: Path, name: str) -> bool:
    """Return True if a file contains this token, and False if it may be written.

    Raises:
        ConfigurationError: The file contains another token of the league, or no token.
    """
    if not file.exists():
        return False
    owner = tokens.name_of(session, _read(file))
    if owner not in (None, name):
        raise ConfigurationError(f"file {file}", f"it contains the token {owner}", _ANOTHER_FILE)
    return owner == name


def _read(file: Path) -> str:
    """Read a token from a file.

    Raises:
        ConfigurationError: The file cannot be read, or does not contain a token.
    """
    secret = private_files.read_private(file, f"file {file}")
    if not is_secret(secret):
        rule = "it does not contain a token: 43 letters, digits, `-` and `_`"
        raise ConfigurationError(f"file {file}", rule, _ANOTHER_FILE)
    return secret


def _write_secret(file: Path | None, secret: str) -> None:
    """Write the secret before the transaction commits, so that a failed write leaves no token without a secret."""
    if file is None:
        return
    try:
        private_files.write_private(file, secret)
    except OSError as error:
        rule = f"it cannot be written ({error.strerror})"
        raise ConfigurationError(f"--out {file}", rule, "choose a file in a writable folder") from error


def _show(issued: dict[str, Any], file: Path | None, *, as_json: bool) -> None:
    if as_json:
        tables.show_json({key: value for key, value in issued.items() if file is None or key != "token"})
    elif file is None:
        typer.echo(issued["token"])
        typer.echo("store it now, it cannot be shown again; programs read it from LEAGUE_TOKEN", err=True)
    else:
        typer.echo(f"{file} contains the token {issued['name']}; programs read it from LEAGUE_TOKEN_FILE", err=True)


def grid(rows: Iterable[TokenListing]) -> Grid:
    """Return a table of tokens."""
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
        "authentication disabled (no tokens); `league token create NAME --scope admin` turns it on",
    )


def _moment(at: datetime | None) -> str:
    return tables.NONE if at is None else tables.moment(at)
