"""A league of a test's own, on SQLite and on PostgreSQL, made by cloning a migrated database."""

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from fastapi.testclient import TestClient
from league_scene import Scene
from sqlalchemy import create_engine, make_url, text

from league.api.dependencies import clock, timepiece
from league.app import create_app
from league.client import LeagueClient, patience_of
from league.config import Settings
from league.db import schema
from league.db.engine import Database
from league.services import tokens

BACKENDS = ("sqlite", "postgresql")

_numbers = count()


class Clock:
    """The time that a test's servers read; it stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    async def __call__(self) -> datetime:
        return self.now


# --- databases -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "league.db"
    _migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres_server.running() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str) -> Iterator[str]:
    name = f"league_template_{os.getpid()}"
    _administer(postgres_url, f"CREATE DATABASE {name}")
    _migrate(_with_database(postgres_url, name))
    yield name
    _administer(postgres_url, f"DROP DATABASE {name}")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The same test on both databases."""
    return str(request.param)


@pytest.fixture
def empty_database_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if backend == "sqlite":
        yield f"sqlite:///{tmp_path / 'league.db'}"
        return
    yield from _postgres_database(request.getfixturevalue("postgres_url"), "template1")


@pytest.fixture
def other_empty_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of the other kind, without tables."""
    if backend == "postgresql":
        yield f"sqlite:///{tmp_path / 'other.db'}"
        return
    yield from _postgres_database(request.getfixturevalue("postgres_url"), "template1")


@pytest.fixture
def database_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A migrated database that holds nothing."""
    yield from _migrated(backend, request, tmp_path / "league.db")


@pytest.fixture
def twin_database_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Another one, for a league to compare with."""
    yield from _migrated(backend, request, tmp_path / "twin.db")


def _migrated(backend: str, request: pytest.FixtureRequest, file: Path) -> Iterator[str]:
    if backend == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), file)
        yield f"sqlite:///{file}"
        return
    template = request.getfixturevalue("postgres_template")
    yield from _postgres_database(request.getfixturevalue("postgres_url"), template)


def _postgres_database(server: str, template: str) -> Iterator[str]:
    name = f"league_{os.getpid()}_{next(_numbers)}"
    _administer(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    yield _with_database(server, name)
    _administer(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _with_database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def _administer(url: str, statement: str) -> None:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


def _migrate(url: str) -> None:
    database = Database(url)
    schema.upgrade(database)
    database.close()


@pytest.fixture
def drop(backend: str, database_url: str, request: pytest.FixtureRequest) -> Callable[[], None]:
    """Take the database away under a running server."""
    assert backend == "postgresql"
    server, name = request.getfixturevalue("postgres_url"), make_url(database_url).database
    return lambda: _administer(server, f"DROP DATABASE {name} WITH (FORCE)")


# --- servers ---------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the settings of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("LEAGUE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def configure(database_url: str, tmp_path: Path) -> Callable[..., Settings]:
    """Make settings of this test's league; unless told otherwise the aggregator sleeps and no token is remembered."""

    def make(**changes: Any) -> Settings:
        given = {
            "home": tmp_path,
            "database_url": database_url,
            "aggregation_interval_s": 3600.0,
            "token_memory_s": 0.0,
        }
        return Settings.load(**given | changes)

    return make


@pytest.fixture
def time() -> Clock:
    return Clock()


@pytest.fixture
def serve(configure: Callable[..., Settings], time: Clock) -> Iterator[Callable[..., TestClient]]:
    """Start a server with changed settings; a second call is a second API process over the same database."""
    clients: list[TestClient] = []

    def start(**changes: Any) -> TestClient:
        app = create_app(configure(**changes))
        app.dependency_overrides |= {clock: time, timepiece: lambda: time}
        client = TestClient(app, raise_server_exceptions=False)
        client.__enter__()
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def http(serve: Callable[..., TestClient]) -> TestClient:
    return serve()


@pytest.fixture
def league(http: TestClient) -> LeagueClient:
    return LeagueClient(http=http)


@pytest.fixture
def scene(league: LeagueClient) -> Scene:
    return Scene(league)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def connect(http: TestClient, database: Database, time: Clock) -> Callable[..., LeagueClient]:
    """Make a client with a new token."""

    def make(scope: str, name: str | None = None, **terms: Any) -> LeagueClient:
        with database.write() as session:
            secret = tokens.create(session, name or scope, scope, time.now, actor="test", **terms)
        return LeagueClient(http=http, token=secret, patience=patience_of(0.0))

    return make
