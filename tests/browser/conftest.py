"""Pages in a real browser, served by a real server, over a league of two hundred players and 27,000 matches."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient
from live_server import listening

from league import wire
from league.app import create_app
from league.auth import Scope
from league.cli.demo.history import simulate
from league.cli.demo.simulation import Scale, SimulatedLeague
from league.client import LeagueClient
from league.db import schema
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.auth import tokens
from league.settings import Settings
from league.web.cookies import cookie_at

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
FORTNIGHT = Scale(
    rounds=20,
    round_length=timedelta(hours=18),
    snapshots={"main": 4, "main-exploiter": 3, "league-exploiter": 3},
    heartbeats=6,
    rating_leases=100,
    rating_budget=12,
    training_leases=12,
)
PATIENCE_MS = 20_000
"""A test's machine may be busy with others; nothing here measures time but what a browser says of itself."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", type=Path, metavar="FOLDER", help="keep a picture of every page in this folder")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@dataclass(frozen=True)
class Served:
    """A league that listens: its address, its folder, what is in it, and a token of each scope."""

    url: str
    home: Path
    league: SimulatedLeague
    tokens: dict[str, str]

    def client(self) -> LeagueClient:
        """Make an admin's client."""
        return LeagueClient(self.url, token=self.tokens["admin"])

    def beat(self) -> None:
        """Have every worker say that it is there, and every learner what it said last."""
        with self.client() as client:
            progress = [
                wire.LearnerProgress(learner_id=one.id, step=one.step, metrics=one.metrics, verdicts=one.verdicts)
                for one in client.learners(self.league.environment).items
                if one.step is not None
            ]
            for worker in client.workers().items:
                client.heartbeat(worker.id, wire.Heartbeat(learners=progress if worker.kind == "trainer" else []))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's Chromium; tests that need one are left out where there is none."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed (Debian: apt install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def served(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Play the league once, on a clock that is behind and catches up, then serve it on the real one."""
    home = tmp_path_factory.mktemp("league")
    settings = Settings.load(home=home, aggregation_interval_s=3600.0, token_memory_s=0.0)
    database = Database(settings.database_address)
    schema.upgrade(database)
    played = simulate(settings, FORTNIGHT)
    with database.write() as session:
        now = datetime.now(UTC)
        made = {scope.word: tokens.create(session, scope.word, scope.word, Cause("test", "", now)) for scope in Scope}
    database.close()
    app = create_app(settings)
    with TestClient(app), listening(app) as url:
        yield Served(url, settings.home, played, made)


@pytest.fixture
def visit(browser: Any, served: Served) -> Iterator[Callable[..., Any]]:
    """Open a page of the league as somebody of a scope; whatever a console shows of errors fails the test."""
    contexts, wrong = [], []

    def go(path: str, scope: str | None = "read", *, expect_errors: bool = False, **options: Any) -> Any:
        context = browser.new_context(base_url=served.url, **{"viewport": {"width": 1280, "height": 900}} | options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        if scope is not None:
            cookie = cookie_at(urlsplit(served.url).port)
            context.add_cookies([{"name": cookie, "value": served.tokens[scope], "url": served.url}])
        page = context.new_page()
        if not expect_errors:
            page.on("console", lambda message: message.type == "error" and wrong.append(f"{path}: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"{path}: {error}"))
        page.goto(path)
        return page

    yield go
    for context in contexts:
        context.close()
    assert wrong == []
