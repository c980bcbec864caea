"""The migrations build exactly the models, and the wrong version of a database is refused by name."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from league_scene import ON_SQLITE
from refused import refused
from schema_drift import differences
from sqlalchemy import event, inspect, text

from league.app import create_app
from league.db import schema
from league.db.engine import Database
from league.db.models import Base
from league.settings import Settings


@pytest.fixture
def empty(empty_database_url: str) -> Database:
    return Database(empty_database_url)


def test_migrations_build_exactly_the_models(database: Database) -> None:
    with database.engine.connect() as connection:
        assert differences(connection) == []
        built = set(inspect(connection).get_table_names())
    assert built == {*Base.metadata.tables, "alembic_version"}


def test_constraints_have_the_names_that_migrations_will_look_for(database: Database) -> None:
    with database.engine.connect() as connection:
        names = {key["name"] for table in Base.metadata.tables for key in inspect(connection).get_foreign_keys(table)}
    assert None not in names
    assert "fk_matches_lease_id_leases" in names


def test_updated_tables_have_a_fillfactor(database: Database) -> None:
    """Which comparing the models does not look at, and SQLite does not know."""
    wanted = {table.name for table in Base.metadata.tables.values() if table.dialect_options["postgresql"]["with"]}
    assert wanted == {"payoffs", "side_payoffs"}
    if not database.sqlite:
        with database.engine.connect() as connection:
            roomy = connection.scalars(text("SELECT relname FROM pg_class WHERE 'fillfactor=50' = ANY (reloptions)"))
            assert set(roomy) == wanted


def test_an_empty_database_is_refused_naming_the_command(empty: Database) -> None:
    with refused("old-database", "league db upgrade"):
        schema.check(empty)
    empty.close()


def test_upgrading_brings_an_empty_database_to_the_head_and_is_repeatable(empty: Database) -> None:
    schema.upgrade(empty)
    schema.check(empty)
    schema.upgrade(empty)
    schema.check(empty)
    empty.close()


def test_several_processes_may_upgrade_at_once(empty_database_url: str) -> None:
    databases = [Database(empty_database_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(schema.upgrade, databases))
    for database in databases:
        schema.check(database)
        database.close()


def test_a_database_of_a_newer_version_is_refused_by_every_door(database: Database, database_url: str) -> None:
    with database.write_connection() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for door in (schema.check, schema.upgrade):
        with refused("newer-database", 9999):
            door(database)


@ON_SQLITE
def test_a_migration_that_fails_leaves_no_table(empty: Database) -> None:
    def end(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("INSERT INTO alembic_version"):
            raise InterruptedError

    event.listen(empty.engine, "before_cursor_execute", end)
    with pytest.raises(InterruptedError):
        schema.upgrade(empty)
    event.remove(empty.engine, "before_cursor_execute", end)
    with empty.engine.connect() as connection:
        assert inspect(connection).get_table_names() == []
    schema.upgrade(empty)
    schema.check(empty)
    empty.close()


def test_a_password_is_not_shown() -> None:
    database = Database("postgresql://league:secret@localhost/league")
    assert "secret" not in str(database)


@pytest.mark.parametrize("url", ["mysql://localhost/league", "not a url", "sqlite://", "sqlite:///:memory:"])
def test_a_database_that_cannot_be_used_is_refused_by_name(url: str) -> None:
    with refused("configuration", "sqlite:///FILE"):
        Database(url)


@ON_SQLITE
def test_the_server_does_not_start_on_another_schema(empty_database_url: str, tmp_path: Path) -> None:
    from fastapi.testclient import TestClient

    app = create_app(Settings.load(home=tmp_path, database_url=empty_database_url))
    with refused("old-database", "league db upgrade"), TestClient(app):
        pass
