"""Commands on the league's database say what its schema lacks, and bring it up to date."""

import sqlite3
from pathlib import Path

import pytest
from league_command import Run
from refused import assert_names

from league.db import schema


@pytest.fixture
def empty_home(tmp_path: Path) -> Path:
    """The home of a league whose database has no tables."""
    sqlite3.connect(tmp_path / "league.db").close()
    return tmp_path


def test_a_schema_behind_fails_the_check_with_the_command_that_helps(command: Run, empty_home: Path) -> None:
    outcome = command("db", "check", "--home", empty_home)
    assert outcome.code == 1
    assert "without tables" in outcome.one_line_error
    assert "run `league db upgrade`" in outcome.one_line_error


def test_the_named_command_helps(command: Run, empty_home: Path) -> None:
    upgraded = command("db", "upgrade", "--home", empty_home)
    assert (upgraded.code, upgraded.out) == (0, f"at revision {schema.head()}\n")
    assert upgraded.err.endswith(f"migrating sqlite:///{empty_home / 'league.db'} to revision {schema.head()} ...\n")
    checked = command("db", "check", "--home", empty_home)
    assert (checked.code, checked.err) == (0, "")


def test_db_upgrade_announces_a_new_league(command: Run, tmp_path: Path) -> None:
    upgraded = command("db", "upgrade", "--home", tmp_path / "new")
    assert upgraded.err.startswith("creating a new league: migrating sqlite:///")


@pytest.mark.parametrize(
    "asked",
    [
        "db check",
        "admin check",
        "rebuild --dry-run",
        "admin prune --dry-run",
        "admin gc --dry-run",
        "export league.zip",
        "token list",
        "token renew laptop",
        "token revoke laptop",
        "token assign laptop main",
    ],
)
def test_a_command_for_a_league_that_is_there_makes_none(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = command(*asked.split(), "--home", tmp_path / "misspelt")
    assert outcome.code == 2
    assert_names(outcome.one_line_error, "misspelt/league.db", "--home")
    assert list(tmp_path.iterdir()) == []


def test_invalid_database_url_error_hides_the_password(command: Run) -> None:
    outcome = command("db", "check", "--database-url", "mysql://league:secret@localhost/league")
    assert outcome.code == 2
    assert "mysql://league:***@localhost/league: the league supports" in outcome.one_line_error
