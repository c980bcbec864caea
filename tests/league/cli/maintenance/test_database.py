"""Commands on the league's database say what its schema lacks, and bring it up to date."""

import sqlite3
from pathlib import Path

import pytest
from league_command import Run

from league.db import schema

FIXTURE = Path(__file__).parents[2] / "fixtures" / "0001.sqlite.sql"


@pytest.fixture
def old_home(tmp_path: Path) -> Path:
    """The home of a league that another version left behind."""
    with sqlite3.connect(tmp_path / "league.db") as file:
        file.executescript(FIXTURE.read_text())
    file.close()
    return tmp_path


def test_a_schema_behind_fails_the_check_with_the_command_that_helps(command: Run, old_home: Path) -> None:
    outcome = command("db", "check", "--home", old_home)
    assert outcome.code == 1
    assert "at revision 0001" in outcome.one_line_error
    assert "run `league db upgrade`" in outcome.one_line_error


def test_the_named_command_helps(command: Run, old_home: Path) -> None:
    upgraded = command("db", "upgrade", "--home", old_home)
    assert (upgraded.code, upgraded.out) == (0, f"at revision {schema.head()}\n")
    assert upgraded.err == f"migrating sqlite:///{old_home / 'league.db'} to revision {schema.head()} ...\n"
    checked = command("db", "check", "--home", old_home)
    assert (checked.code, checked.err) == (0, "")
    assert [line.split()[0] for line in command("token", "list", "--home", old_home).out.splitlines()[1:]] == [
        "laptop",
        "old",
    ]


def test_an_upgrade_of_a_league_that_is_not_there_says_that_it_makes_one(command: Run, tmp_path: Path) -> None:
    upgraded = command("db", "upgrade", "--home", tmp_path / "new")
    assert upgraded.err.startswith("making a new league: migrating sqlite:///")


@pytest.mark.parametrize(
    "asked",
    [
        "db check",
        "check",
        "rebuild --dry-run",
        "prune --dry-run",
        "gc --dry-run",
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
    assert "misspelt/league.db: there is no such file; name the league's folder with --home" in outcome.one_line_error
    assert list(tmp_path.iterdir()) == []


def test_a_database_whose_address_is_wrong_is_named_without_its_password(command: Run) -> None:
    outcome = command("db", "check", "--database-url", "mysql://league:secret@localhost/league")
    assert outcome.code == 2
    assert "mysql://league:***@localhost/league: the league keeps" in outcome.one_line_error
