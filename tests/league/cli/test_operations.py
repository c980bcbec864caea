"""`league db` and `league rebuild`, on the database."""

import sqlite3
from pathlib import Path

import pytest
from league_command import Run

from league import wire


def test_check_refuses_an_old_database_and_upgrade_makes_it_current(command: Run, tmp_path: Path) -> None:
    before = command("db", "check", "--home", tmp_path)
    assert before.code == 1
    assert "league db upgrade" in before.one_line_error
    assert command("db", "upgrade", "--home", tmp_path).code == 0
    assert command("db", "check", "--home", tmp_path).code == 0
    assert "migrating" not in command("db", "upgrade", "--home", tmp_path).err


@pytest.mark.parametrize("words", [("db", "check"), ("db", "upgrade"), ("token", "list"), ("serve", "--port", "0")])
def test_a_database_of_a_newer_version_is_refused_by_every_command(
    command: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    command("db", "upgrade", "--home", tmp_path)
    with sqlite3.connect(tmp_path / "league.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'ffff'")
    connection.close()
    outcome = command(*words, "--home", tmp_path)
    assert outcome.code == 1
    assert "database of a newer version" in outcome.one_line_error
    assert "ffff" in outcome.one_line_error


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://somewhere/league", "sqlite:///FILE or postgresql://"),
        ("nonsense", "not a database URL"),
        ("postgresql://nobody@127.0.0.1:1/league", "LEAGUE_DATABASE_URL"),
    ],
)
def test_an_unusable_database_is_named_in_one_line(command: Run, url: str, says: str) -> None:
    outcome = command("db", "check", "--database-url", url)
    assert outcome.code == 2
    assert says in outcome.one_line_error


def test_a_file_that_is_no_database_is_named_in_one_line(command: Run, tmp_path: Path) -> None:
    (tmp_path / "league.db").write_text("a shopping list, longer than a header of a hundred bytes " * 4)
    outcome = command("db", "check", "--home", tmp_path)
    assert outcome.code == 2
    assert "not a database" in outcome.one_line_error


def test_a_home_that_cannot_be_made_is_named_in_one_line(command: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = command("db", "upgrade", "--home", tmp_path / "file" / "home")
    assert outcome.code == 2
    assert "--home" in outcome.one_line_error


def test_rebuilding_an_unknown_environment_is_refused(command: Run, tmp_path: Path) -> None:
    command("db", "upgrade", "--home", tmp_path)
    outcome = command("rebuild", "--environment", "chess", "--home", tmp_path)
    assert outcome.code == 1
    assert "unknown environment chess" in outcome.one_line_error


def test_a_rebuild_is_bit_identical(command: Run, snapshot: wire.Player, tmp_path: Path) -> None:
    outcome = command("rebuild", "--home", tmp_path)
    assert outcome.code == 0
    assert outcome.out.startswith("rps: 1 periods,")
    assert outcome.out.strip().endswith("bit-identical")


def test_a_rating_changed_behind_the_leagues_back_is_reported_and_set_right(
    command: Run, snapshot: wire.Player, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "league.db") as connection:
        connection.execute(
            "UPDATE ratings SET rating = rating + 1e-9 WHERE player_id = (SELECT max(player_id) FROM ratings)"
        )
    connection.close()
    outcome = command("rebuild", "--environment", "rps", "--home", tmp_path)
    assert outcome.code == 1
    assert "rebuild mismatch rps" in outcome.one_line_error
    assert "1 ratings or payoffs differed" in outcome.out
    assert command("rebuild", "--home", tmp_path).code == 0
