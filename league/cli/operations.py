"""Look after a league: close a rating period, rebuild every rating, bring the database up to date."""

from typing import Annotated

import typer

from league.cli import database, tables
from league.cli.connection import AsJson, Environment, Token, Url, connect
from league.cli.database import DatabaseUrl, Home
from league.client import DEFAULT_URL
from league.config import Settings
from league.db import schema
from league.db.engine import Database
from league.errors import RebuildMismatchError, UnknownEnvironmentError
from league.services import learners
from league.services import rebuild as rebuilding

app = typer.Typer()
db = typer.Typer(help="Look after the database's schema.", no_args_is_help=True)


@app.command("close-period", epilog="Example: league close-period --environment mech-duel")
def close_period(
    environment: Environment = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept with the period.")] = "by hand",
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Rate everything reported so far, now. The server does so by itself when enough has come in."""
    with connect(url, token) as client:
        period = client.close_period(environment, reason)
    if as_json:
        tables.show_json(period)
    else:
        tables.show(f"{period.environment}: closed {tables.period_line(period)}")


@app.command(epilog="Example: league rebuild --environment mech-duel")
def rebuild(
    environment: Annotated[
        str | None, typer.Option("--environment", help="Only this game.", show_default="all")
    ] = None,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Compute every rating and payoff again from the match log, on the league's database; the server may run.

    The outcome must be bit-identical to what is stored. Where it is not, because somebody changed the tables, the
    outcome replaces it and the command exits with 1.
    """
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection:
        _require_known(connection, environment)
        outcome = rebuilding.rebuild(connection, environment)
    if as_json:
        tables.show_json({"items": outcome, "next_cursor": None})
    else:
        lines = [_report(one) for one in outcome]
        tables.show(*(lines or ["nothing to rebuild: no game is played yet"]))
    wrong = [one.environment for one in outcome if one.differing]
    if wrong:
        rule = "stored ratings or payoffs were not what the match log says; they are now"
        raise RebuildMismatchError(", ".join(wrong), rule, "find out who writes to the tables beside the league")


@db.command(epilog="Example: league db upgrade --database-url postgresql://league@localhost/league")
def upgrade(home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Bring the database's schema to this version's; `league serve` and `league up` do so by themselves."""
    settings = Settings.load(home=home, database_url=database_url)
    database.migrate(settings)
    typer.echo(f"at revision {schema.head()}")


@db.command(epilog="Example: league db check")
def check(home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Say whether the database's schema is this version's; exits with 1 where it is not."""
    with database.current(Settings.load(home=home, database_url=database_url)) as connection:
        typer.echo(f"{connection} is at revision {schema.head()}, as this version needs")


def _require_known(connection: Database, environment: str | None) -> None:
    with connection.read() as session:
        known = learners.environments(session)
    if environment is not None and environment not in known:
        raise UnknownEnvironmentError(environment, f"the league plays {', '.join(known) or 'none yet'}", "name another")


def _report(outcome: rebuilding.Rebuilt) -> str:
    verdict = "bit-identical" if not outcome.differing else f"{outcome.differing} ratings or payoffs differed"
    return f"{outcome.environment}: {outcome.periods} periods, {outcome.ratings} ratings: {verdict}"
