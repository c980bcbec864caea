"""A league of a test's own, on SQLite and on PostgreSQL, made by cloning a migrated database."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import isabstract
from itertools import count
from pathlib import Path
from typing import Any

import postgres_server
import psycopg
import pytest
import served_app
from fastapi import FastAPI
from fastapi.testclient import TestClient
from league_history import put_to_work
from league_scene import Scene
from sqlalchemy import make_url

from league.api.dependencies import clock, get_clock
from league.background import worker_count
from league.background.task import PeriodicTask
from league.client import LeagueClient, make_retry_gate
from league.db import schema
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.auth import tokens
from league.settings import Settings

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
    template = "sqlite_template" if backend == "sqlite" else "postgres_template"
    yield from _copy(request.getfixturevalue(template), backend, request, file)


def _copy(template: Path | str, backend: str, request: pytest.FixtureRequest, file: Path) -> Iterator[str]:
    if backend == "sqlite":
        shutil.copy(template, file)
        yield f"sqlite:///{file}"
        return
    yield from _postgres_database(request.getfixturevalue("postgres_url"), str(template))


# --- a league with a past, played once and copied --------------------------------------------------------------------


@dataclass(frozen=True)
class Past:
    """A league that was put to work.

    Attributes:
        database: SQLite's file, or the name in PostgreSQL.
        home: Where its checkpoints are.
        now: When it was left alone.
    """

    database: Path | str
    home: Path
    now: datetime


@pytest.fixture(scope="session")
def past_on_sqlite(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory, _routes: None) -> Past:
    home = tmp_path_factory.mktemp("past")
    file = Path(shutil.copy(sqlite_template, home / "league.db"))
    return Past(file, home, _put_to_work(f"sqlite:///{file}", home))


@pytest.fixture(scope="session")
def past_on_postgresql(
    postgres_url: str, postgres_template: str, tmp_path_factory: pytest.TempPathFactory, _routes: None
) -> Iterator[Past]:
    home = tmp_path_factory.mktemp("past")
    for url in _postgres_database(postgres_url, postgres_template):
        now = _put_to_work(url, home)
        yield Past(str(make_url(url).database), home, now)


def _put_to_work(url: str, home: Path) -> datetime:
    """Without the rules, which may make somebody the champion, or may not."""
    time = Clock()
    settings = _settings(home=home, database_url=url, automatic_promotion=False)
    with TestClient(_application(settings, time)) as http:
        put_to_work(Scene(LeagueClient(http=http)), time)
    return time.now


@pytest.fixture
def past_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path, time: Clock) -> Iterator[str]:
    """A test's own copy of the league that was put to work; tests go on from there if `database_url` is this."""
    past = request.getfixturevalue(f"past_on_{backend}")
    time.now = past.now
    shutil.copytree(past.home / "checkpoints", tmp_path / "checkpoints")
    yield from _copy(past.database, backend, request, tmp_path / "league.db")


def _postgres_database(server: str, template: str) -> Iterator[str]:
    name = f"league_{os.getpid()}_{next(_numbers)}"
    _administer(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    yield _with_database(server, name)
    _administer(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _with_database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def _administer(url: str, statement: str) -> None:
    server = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement)


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


@pytest.fixture(autouse=True)
def _duties_end_with_their_server() -> Iterator[None]:
    """Name the test that leaves one at work: it would go on, and fail, in the middle of others."""
    before = set(threading.enumerate())
    yield
    kinds = [PeriodicTask, *PeriodicTask.__subclasses__()]
    names = {each.name for kind in kinds for each in kind.__subclasses__() if not isabstract(each)}
    left = [each.name for each in threading.enumerate() if each not in before and each.name in names]
    assert left == []


@pytest.fixture
def configure(database_url: str, tmp_path: Path) -> Callable[..., Settings]:
    """Make settings of this test's league."""
    return partial(_settings, home=tmp_path, database_url=database_url)


def _settings(**given: Any) -> Settings:
    """Unless told otherwise duties sleep, nothing is remembered, and worker tokens may create environments."""
    quiet = {"aggregation_interval_s": 3600.0, "lease_sweep_s": 3600.0, "token_memory_s": 0.0, "metrics_cache_s": 0.0}
    quiet["workers_create_environments"] = True
    return Settings.load(**quiet | given)


def _application(settings: Settings, time: Clock) -> FastAPI:
    return served_app.make(settings, {clock: time, get_clock: lambda: time})


@pytest.fixture
def time() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def _routes() -> None:
    """Have them made before a test draws of its own chance, that it does so the same wherever it comes first."""
    served_app.first()


@pytest.fixture
def serve(
    configure: Callable[..., Settings], time: Clock, monkeypatch: pytest.MonkeyPatch, _routes: None
) -> Iterator[Callable[..., TestClient]]:
    """Start a server with changed settings; a second call is a second API process over the same database."""
    monkeypatch.setattr(worker_count, "EVERY_S", 3600.0)  # nobody is counted unless a test does it
    clients: list[TestClient] = []

    def start(**changes: Any) -> TestClient:
        client = TestClient(_application(configure(**changes), time), raise_server_exceptions=False)
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
            secret = tokens.create(session, name or scope, scope, Cause("test", "", time.now), **terms)
        return LeagueClient(http=http, token=secret, patience=make_retry_gate(0.0))

    return make
