"""`league admin fork`: create a new league from the past state of another."""

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home, Options
from league.cli.maintenance.transfer import shown_progress
from league.cli.output.tables import moment
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.operations import fork as operations_fork
from league.services.operations.fork import League
from league.settings import Settings
from league.storage.factory import open_store

app = typer.Typer()

_NEW = Options("DESTINATION", "--destination-database-url")


@app.command(epilog="Example: league admin fork --at 120 /srv/league-b")
def fork(
    destination: Annotated[Path, typer.Argument(metavar="DESTINATION", help="Home folder of the new league.")],
    at: Annotated[int, typer.Option("--at", metavar="PERIOD", min=1, max=2**63 - 1, help="A rating period's id.")],
    destination_database_url: Annotated[
        str | None,
        typer.Option(
            "--destination-database-url",
            help="Database of the new league.",
            show_default="league.db in DESTINATION",
        ),
    ] = None,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Create a new league from this one, as it was after a rating period.

    `league admin log --periods` lists the periods. Players, their states, the champion, gates and ratings are those of
    that period, and ratings are bit-identical. Other environments have their state of the same time. Workers, tokens
    and quarantines are the current ones. This league does not change, and its server may run. If a fork fails, run it
    again.
    """
    settings = Settings.load(home=home, database_url=database_url)
    own = {"database_url": destination_database_url, "store_url": None}
    new = settings.model_copy(update={"home": destination, **own, "store_endpoint_url": None, "store_public_url": None})
    with (
        database.current(settings) as source,
        database.connected(new, _NEW) as target,
        shown_progress() as progress,
    ):
        destination.mkdir(parents=True, exist_ok=True)
        snapshot, manifest = operations_fork.fork(
            League(source, open_store(settings)),
            League(target, open_store(new)),
            at,
            destination,
            Cause(database.user_name(), "", datetime.now(UTC)),
            progress,
        )
    rows = manifest.rows
    typer.echo(
        f"{target}: {rows['players']:,} players, {rows['matches']:,} matches, {manifest.checkpoints:,} checkpoints as "
        f"of period {at} of {snapshot.environment}, {moment(snapshot.at)}; start it with {_next(settings, new, target)}"
    )


def _next(settings: Settings, new: Settings, target: Database) -> str:
    """Return the command that runs the new league, even if environment variables locate the old one."""
    command = ["league", "up", "--home", str(new.home), "--learner", "NAME"]
    if settings.database_url or new.database_url:
        command += ["--database-url", str(target)]
    unset = " and LEAGUE_STORE_URL unset" if settings.store_url else ""
    return f"`{shlex.join(command)}` with a new learner's NAME{unset}"
