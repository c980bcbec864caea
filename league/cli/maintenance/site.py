"""`league export-site`: write a static copy of the dashboard, to publish it with a paper."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import httpx2
import typer
from sqlalchemy.orm import Session

from league.api.dependencies import clock
from league.app import create_app
from league.auth import Principal, Scope
from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home
from league.cli.maintenance.transfer import shown_progress
from league.errors import ConfigurationError, LeagueError
from league.services.environments import lookup as environments
from league.services.leaderboard import payoff_matrix
from league.services.leaderboard.payoff_matrix import PayoffFilter
from league.services.population.cache import PopulationCache
from league.settings import Settings
from league.web.cookies import visitor
from league.web.site import export
from league.web.site.export import Site
from league.web.site.page import Fetch

app = typer.Typer()

_READER = Principal("export-site", Scope.READ)
_LOCAL = "http://localhost"


class PageError(LeagueError):
    """The dashboard could not render a page of the copy."""

    type, title = "site-page", "page"


@app.command("export-site", epilog="Example: league export-site site && xdg-open site/index.html")
def export_site(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the copy. It is created.")],
    environment: Annotated[
        str | None, typer.Option("--environment", help="Environment to copy. Optional if the league has only one.")
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", help="Name of the league in the footer of every page.")
    ] = None,
    matches: Annotated[
        int, typer.Option("--matches", min=0, max=100_000, help="Newest matches that get a page each.")
    ] = 200,
    compared: Annotated[
        int, typer.Option("--compared", min=0, max=50, help="Strongest players with a head-to-head page for every two.")
    ] = 10,
    pages: Annotated[int, typer.Option("--pages", min=1, max=1_000_000, help="Maximum number of pages.")] = 20_000,
    force: Annotated[
        bool, typer.Option("--force", help="Write into a folder with files; those of the same name are replaced.")
    ] = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write a static copy of the dashboard, which browsers open from disk or from any web server.

    It has the pages of one environment as they are now: players, payoff, matches, runs, training and events, with their
    charts, replays and downloads. Every two of the strongest players have head-to-head pages. Forms, workers and
    checkpoints are left out. It shows names, notes, reasons and hosts as the dashboard does, so read it before you
    publish it. The server may run.
    """
    settings = Settings.load(home=home, database_url=database_url)
    _require_empty(folder, force=force)
    with database.current(settings) as connection, connection.read() as session:
        if environment is not None:
            environments.require(session, environment)
        name = environment or environments.only(session)
        site = Site(
            title=title,
            environment=name,
            several=environments.count(session) > 1,
            made_at=datetime.now(UTC),
            matches=matches,
            pages=pages,
            compared=_strongest(session, settings, name, compared),
        )
    with _dashboard(settings, site.made_at) as fetch, shown_progress() as progress:
        report = export.export(site, fetch, folder, progress)
    size_mb = report.size_bytes / 1e6
    typer.echo(f"{folder}: {report.pages:,} pages of {site.environment}, {report.files:,} files, {size_mb:,.1f} MB")
    for kind, number in sorted(report.left_out.items()):
        typer.echo(f"left out: {kind} ({number:,} {'link' if number == 1 else 'links'})", err=True)


def _strongest(session: Session, settings: Settings, environment: str, number: int) -> list[int]:
    """Return ids of the first players of the payoff page, strongest first."""
    if not number:
        return []
    wanted = PayoffFilter(number)
    matrix = payoff_matrix.get_payoff_matrix(session, settings, PopulationCache(), environment, wanted)
    return [player.id for player in matrix.players]


def _require_empty(folder: Path, *, force: bool) -> None:
    """Reject a folder that has files, unless they may be replaced.

    Raises:
        ConfigurationError: The folder is a file, or has files.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"folder {folder}", "it is a file", "choose another name")
    if folder.is_dir() and not force and next(folder.iterdir(), None) is not None:
        rule = "it is not empty"
        raise ConfigurationError(f"folder {folder}", rule, "choose another name, or replace files of it with --force")


@contextmanager
def _dashboard(settings: Settings, now: datetime) -> Iterator[Fetch]:
    """Yield a function that renders the dashboard as a reader sees it at one moment; no background task runs."""
    app = create_app(settings)

    async def read_clock() -> datetime:
        return now

    app.dependency_overrides |= {visitor: lambda: _READER, clock: read_clock}
    # Without its lifespan, the application only answers requests.
    client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=_LOCAL)
    with asyncio.Runner() as runner:

        def fetch(address: str) -> str:
            response = runner.run(client.get(address))
            if response.status_code != HTTPStatus.OK:
                rule = f"the dashboard returned status {response.status_code}"
                raise PageError(address, rule, "open it in a browser with `league serve`, which shows the reason")
            return response.text

        try:
            yield fetch
        finally:
            runner.run(client.aclose())
            app.state.league.database.close()
