"""Let a league forget what it need not keep; works on its database, where the server runs."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.filesize import decimal

from league.cli.connection import AsJson
from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home
from league.cli.output import durations, tables
from league.errors import ConfigurationError
from league.services.operations import retention
from league.services.operations.retention import Outdated
from league.settings import Settings

app = typer.Typer()

QUARTER = "90d"

OlderThan = Annotated[
    str,
    typer.Option("--older-than", metavar="SPAN", help="Keep what is younger: 12h, 30d or 8w, always with the unit."),
]


@app.command(epilog="Example: league prune --older-than 30d --dry-run")
def prune(
    older_than: OlderThan = QUARTER,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and take nothing away.")] = False,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Delete old leases without a result, refused results and old opponent records.

    Matches, ratings, players, periods, events and leases with a match are never deleted. Of old draws, branches and
    rules stay. The server may run. With LEAGUE_RETENTION_DAYS the server prunes once a day on its own.
    """
    age = durations.read(older_than, "--older-than", timedelta(0))
    settings = Settings.load(home=home, database_url=database_url)
    grace = timedelta(seconds=settings.lease_grace_s)
    if age < grace:
        rule = f"results of a lease count until {grace} after its end, LEAGUE_LEASE_GRACE_S"
        way_out = f"write --older-than {durations.written(grace)} or more"
        raise ConfigurationError(f"--older-than {older_than}", rule, way_out)
    now = datetime.now(UTC)
    with database.current(settings) as connection:
        if dry_run:
            outdated = retention.survey(connection, now - age)
        else:
            outdated = sum(retention.prune(connection, now - age, now), Outdated())
    if as_json:
        tables.show_json({"dry_run": dry_run, **asdict(outdated)})
    else:
        verb = "would delete" if dry_run else "deleted"
        rows = f"{outdated.leases:,} leases that nobody played and {outdated.refusals:,} refused results"
        tables.show(f"{verb} {rows}, and the opponents of {outdated.draws:,} draws, {decimal(outdated.draw_bytes)}")
