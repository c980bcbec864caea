"""`league db` and `league rebuild`, on the database."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def one_line(text: str) -> bool:
    return text.startswith("league: ") and text.count("\n") == 1


def test_check_refuses_an_old_database_and_upgrade_makes_it_current(league: Run, tmp_path: Path) -> None:
    before = league("db", "check", "--home", tmp_path)
    assert before.code == 1
    assert one_line(before.err)
    assert "league db upgrade" in before.err
    assert league("db", "upgrade", "--home", tmp_path).code == 0
    assert league("db", "check", "--home", tmp_path).code == 0
    assert "migrating" not in league("db", "upgrade", "--home", tmp_path).err


@pytest.mark.parametrize("command", [("db", "check"), ("db", "upgrade"), ("token", "list"), ("serve", "--port", "0")])
def test_a_database_of_a_newer_version_is_refused_by_every_command(
    league: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    league("db", "upgrade", "--home", tmp_path)
    with sqlite3.connect(tmp_path / "league.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'ffff'")
    connection.close()
    outcome = league(*command, "--home", tmp_path)
    assert outcome.code == 1
    assert one_line(outcome.err)
    assert "database of a newer version" in outcome.err
    assert "ffff" in outcome.err


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://somewhere/league", "sqlite:///FILE or postgresql://"),
        ("nonsense", "not a database URL"),
        ("postgresql://nobody@127.0.0.1:1/league", "LEAGUE_DATABASE_URL"),
    ],
)
def test_an_unusable_database_is_named_in_one_line(league: Run, url: str, says: str) -> None:
    outcome = league("db", "check", "--database-url", url)
    assert outcome.code == 2
    assert one_line(outcome.err)
    assert says in outcome.err


def test_a_file_that_is_no_database_is_named_in_one_line(league: Run, tmp_path: Path) -> None:
    (tmp_path / "league.db").write_text("a shopping list, longer than a header of a hundred bytes " * 4)
    outcome = league("db", "check", "--home", tmp_path)
    assert outcome.code == 2
    assert one_line(outcome.err)
    assert "not a database" in outcome.err


def test_a_home_that_cannot_be_made_is_named_in_one_line(league: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = league("db", "upgrade", "--home", tmp_path / "file" / "home")
    assert outcome.code == 2
    assert one_line(outcome.err)
    assert "--home" in outcome.err


def test_rebuilding_an_unknown_environment_is_refused(league: Run, tmp_path: Path) -> None:
    league("db", "upgrade", "--home", tmp_path)
    outcome = league("rebuild", "--environment", "chess", "--home", tmp_path)
    assert outcome.code == 1
    assert one_line(outcome.err)
    assert "unknown environment chess" in outcome.err
