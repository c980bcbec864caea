"""Commands on the league's database say what its schema lacks, and bring it up to date."""

import sqlite3
from pathlib import Path

import pytest
from league_command import Run

from league.db import schema

FIXTURE = Path(__file__).parents[1] / "fixtures" / "0001.sqlite.sql"


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
    assert f"to revision {schema.head()}" in upgraded.err
    checked = command("db", "check", "--home", old_home)
    assert (checked.code, checked.err) == (0, "")
    assert [line.split()[0] for line in command("token", "list", "--home", old_home).out.splitlines()[1:]] == [
        "laptop",
        "old",
    ]
