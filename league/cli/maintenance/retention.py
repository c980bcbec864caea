"""`league admin prune`: delete old rows; opens the database directly, on the server's machine."""

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
from league.services.operations.retention import PrunedCounts
from league.settings import Settings

app = typer.Typer()

DEFAULT_AGE = "90d"

OlderThan = Annotated[
    str,
    typer.Option("--older-than", metavar="SPAN", help="Keep younger rows. Units are h, d and w, for example 30d."),
]


@app.command(epilog="Example: league admin prune --older-than 30d --dry-run")
def prune(
    older_than: OlderThan = DEFAULT_AGE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the deletions without doing them.")] = False,
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Delete old leases without a result, rejected results and old opponent records.

    Matches, ratings, players, periods, events and leases with a match are never deleted. Old opponent distributions
    keep their branches and rules. The server may run. With LEAGUE_RETENTION_DAYS the server prunes once a day.
    """
    age = durations.parse_span(older_than, "--older-than", timedelta(0))
    settings = Settings.load(home=home, database_url=database_url)
    grace = timedelta(seconds=settings.lease_grace_s)
    if age < grace:
        rule = f"results of a lease are accepted until {grace} after it expires (LEAGUE_LEASE_GRACE_S)"
        remedy = f"use --older-than {durations.format_span(grace)} or more"
        raise ConfigurationError(f"--older-than {older_than}", rule, remedy)
    now = datetime.now(UTC)
    with database.current(settings) as connection:
        if dry_run:
            outdated = retention.survey(connection, now - age)
        else:
            outdated = sum(retention.prune(connection, now - age, now), PrunedCounts())
    if as_json:
        tables.show_json({"dry_run": dry_run, **asdict(outdated)})
    else:
        verb = "would delete" if dry_run else "deleted"
        rows = f"{outdated.leases:,} leases without a result and {outdated.refusals:,} rejected results"
        tables.show(f"{verb} {rows}, {outdated.draws:,} opponent distributions, {decimal(outdated.draw_bytes)}")
