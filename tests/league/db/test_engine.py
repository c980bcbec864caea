"""Connections that end while idle, and durability on SQLite."""

from collections.abc import Iterator

import pytest
import served_app
from league_scene import ON_SQLITE
from sqlalchemy import create_engine, text

from league.db import engine
from league.db.engine import Database

ON_POSTGRES = pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
"""SQLite's connections are open files, which do not end."""


@pytest.fixture
def used(database: Database) -> Iterator[Database]:
    """A database with a connection that was used before, and that its server has closed since."""
    with database.read() as session:
        own = session.scalar(text("SELECT pg_backend_pid()"))
    other = create_engine(database.url)
    with other.connect() as connection:
        assert connection.scalar(text("SELECT pg_terminate_backend(:pid, 60000)"), {"pid": own})
    other.dispose()
    yield database
    database.close()


@ON_POSTGRES
@pytest.mark.parametrize("asked_after_s", [0.0, 60.0])
def test_a_connection_that_ended_while_idle_is_replaced_however_short_that_was(
    used: Database, asked_after_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_IDLE_S", asked_after_s)
    with used.write() as session:
        assert session.scalar(text("SELECT 1")) == 1


@ON_POSTGRES
def test_a_connection_in_use_is_not_asked_each_time(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def ask(_connection: object) -> bool:
        nonlocal asked
        asked += 1
        return True

    monkeypatch.setattr(database.engine.dialect, "do_ping", ask)
    for idle_s, expected in ((60.0, 0), (0.0, 3)):
        monkeypatch.setattr(engine, "_IDLE_S", idle_s)
        for _ in range(3):
            with database.read() as session:
                session.execute(text("SELECT 1"))
        assert asked == expected


@ON_SQLITE
def test_sqlite_syncs_every_commit_to_disk(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_SQLITE_PRAGMAS", served_app.DURABLE)
    database = Database(empty_database_url)
    with database.read() as session:
        assert session.scalar(text("PRAGMA synchronous")) == 2  # FULL
    database.close()
