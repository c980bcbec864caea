"""Databases of released versions come to the present schema with every row, and keep their ratings bit for bit."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.migration import MigrationContext
from fastapi.testclient import TestClient
from league_history import recomputed
from schema_drift import differences
from sqlalchemy import Connection, MetaData, Row, event, make_url, select, text

from league.app import create_app
from league.client import LeagueClient
from league.db import schema
from league.db.engine import Database
from league.errors import OldDatabaseError
from league.services.auth import tokens
from league.settings import Settings

FIXTURES = Path(__file__).parents[1] / "fixtures"
VERSIONS = Path(__file__).parents[3] / "migrations" / "versions"
RELEASED = sorted({path.name.split(".")[0] for path in FIXTURES.glob("*.sql")})

Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(params=RELEASED)
def released_url(request: pytest.FixtureRequest, backend: str, empty_database_url: str) -> str:
    """A league as a released version left it."""
    dump = (FIXTURES / f"{request.param}.{backend}.sql").read_text()
    if backend == "sqlite":
        with sqlite3.connect(str(make_url(empty_database_url).database)) as file:
            file.executescript(dump)
        file.close()
    else:
        with psycopg.connect(empty_database_url) as server:
            server.execute(dump.encode())
    return empty_database_url


@pytest.fixture
def released(released_url: str) -> Iterator[Database]:
    opened = Database(released_url)
    yield opened
    opened.close()


def test_there_is_a_fixture_of_every_released_revision() -> None:
    revisions = {path.name.split("_")[0] for path in VERSIONS.glob("0*.py")}
    assert set(RELEASED) == revisions - {schema.head()}


def test_an_upgrade_keeps_every_row_and_builds_exactly_the_models(released: Database) -> None:
    before = rows(released)
    assert all(before[table] for table in before), "an empty table proves nothing"
    schema.upgrade(released)
    schema.check(released)
    assert of_columns(rows(released), before) == before
    with released.engine.connect() as connection:
        assert differences(connection) == []


def test_an_upgrade_that_ends_at_its_last_statement_leaves_all_as_it_was_and_is_done_again(released: Database) -> None:
    before, revision = rows(released), current(released)

    def end(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("UPDATE alembic_version"):
            raise InterruptedError

    event.listen(released.engine, "before_cursor_execute", end)
    with pytest.raises(InterruptedError):
        schema.upgrade(released)
    event.remove(released.engine, "before_cursor_execute", end)
    assert (current(released), rows(released)) == (revision, before)
    schema.upgrade(released)
    with released.engine.connect() as connection:
        assert differences(connection) == []


def test_an_upgrade_keeps_every_rating_bit_for_bit(released: Database, released_url: str, tmp_path: Path) -> None:
    with released.engine.connect() as connection:
        stored = last_ratings(connection)
    schema.upgrade(released)
    settings = Settings.load(home=tmp_path, database_url=released_url, aggregation_interval_s=3600.0)
    with TestClient(create_app(settings)) as http:
        http.headers["Authorization"] = f"Bearer {token(released)}"
        players = LeagueClient(http=http).players(limit=1000).items
    assert len(stored) > 5
    assert {p.id: (p.rating, p.deviation, p.volatility, p.games) for p in players if p.id in stored} == stored
    assert [outcome.differing for outcome in recomputed(released)] == [0, 0]


def test_a_downgrade_brings_the_released_schema_back_with_every_row(released: Database) -> None:
    before = rows(released)
    revision = current(released)
    schema.upgrade(released)
    with released.write_connection() as connection:
        schema.move(connection, revision)
    assert rows(released) == before


def test_an_upgraded_league_assigns_new_ids_after_the_old_ones(released: Database) -> None:
    with released.engine.connect() as connection:
        last_id = connection.scalar(text("SELECT max(id) FROM tokens"))
    schema.upgrade(released)
    token(released)
    with released.engine.connect() as connection:
        assert connection.scalar(text("SELECT max(id) FROM tokens")) == last_id + 1


def test_a_trainer_of_the_first_version_keeps_working_on_an_upgraded_league(
    released: Database, released_url: str, tmp_path: Path
) -> None:
    """Its calls, field by field as it made them; it names no protocol and reads what it knows of the answers."""
    schema.upgrade(released)
    settings = Settings.load(home=tmp_path, database_url=released_url, aggregation_interval_s=3600.0)
    with TestClient(create_app(settings)) as http:
        http.headers["Authorization"] = f"Bearer {token(released)}"

        def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
            answer = http.post(f"/api/v1{path}", json=body)
            assert answer.is_success, answer.text
            made: dict[str, Any] = answer.json()
            return made

        known = {"environment": "rps", "signature": "rps-1"}
        worker = call(
            "/workers", {"name": "trainer-old", "kind": "trainer", "version": "0.1.0", "signatures": ["rps-1"]}
        )
        learner = call("/learners", {"name": "old", "role": "main", **known})
        own = {"worker_id": worker["id"]}
        asked = {"kind": "training", **own, "player_id": learner["player_id"], "count": 4, "budget": 2}
        leases = call("/leases", {**asked, "self_play": False})["items"]
        ended = {"sequence": 0, "score": 1.0, "decisions": 1, "reason": "decided", "learner_step": 64}
        results = [{"lease_id": lease["lease_id"], "seed": lease["seed"], **ended} for lease in leases]
        items = call("/results", {**own, "results": results})["items"]
        assert [item["status"] for item in items] == ["accepted"] * 4
        progress = {"learner_id": learner["id"], "step": 64, "metrics": {"charts/score": 1.0}}
        assert call(f"/workers/{worker['id']}/heartbeat", {"learners": [progress]})["command"] == "continue"
        assert call("/leases/release", {**own, "lease_ids": [leases[0]["lease_id"]]})
        call("/rating-periods", {"environment": "rps"})
        assert http.get(f"/api/v1/players/{learner['player_id']}").json()["games"] == 4


def test_a_server_does_not_start_on_a_released_schema_and_names_the_command(released_url: str, tmp_path: Path) -> None:
    app = create_app(Settings.load(home=tmp_path, database_url=released_url))
    with pytest.raises(OldDatabaseError, match=r"at revision \d+: .*run `league db upgrade`"), TestClient(app):
        pass


# --- reading tables of any revision ----------------------------------------------------------------------------------


def rows(database: Database) -> Rows:
    """Read every table but alembic's own, in order of all values."""
    with database.engine.connect() as connection:
        metadata = MetaData()
        metadata.reflect(connection)
        return {
            table.name: sorted((dict(row) for row in connection.execute(select(table)).mappings()), key=repr)
            for table in metadata.sorted_tables
            if table.name != "alembic_version"
        }


def of_columns(wide: Rows, narrow: Rows) -> Rows:
    """Cut tables down to the columns that an older revision had."""
    return {
        table: sorted(({column: row[column] for column in kept[0]} for row in wide[table]), key=repr)
        for table, kept in narrow.items()
    }


def last_ratings(connection: Connection) -> dict[int, Row[Any]]:
    statement = """SELECT player_id, rating, deviation, volatility, games FROM ratings AS r WHERE period_id =
        (SELECT max(period_id) FROM ratings WHERE player_id = r.player_id)"""
    return {row[0]: tuple(row[1:]) for row in connection.execute(text(statement))}


def current(database: Database) -> str:
    with database.engine.connect() as connection:
        return str(MigrationContext.configure(connection).get_current_revision())


def token(database: Database) -> str:
    """Make a token; the released leagues are closed."""
    with database.write() as session:
        return tokens.create(session, "test", "admin", datetime(2030, 1, 1, tzinfo=UTC), actor="test")
