"""`league db` and `league rebuild`, on the database."""

import json
import sqlite3
from pathlib import Path

import pytest
from league_command import Run
from league_scene import Scene
from refused import assert_names

from league import wire


def test_upgrade_makes_a_database_and_leaves_a_current_one_alone(command: Run, tmp_path: Path) -> None:
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
    assert outcome.code == 78
    assert_names(outcome.one_line_error, "ffff")


@pytest.mark.parametrize(
    ("url", "says", "code"),
    [
        ("mysql://somewhere/league", "sqlite:///FILE or postgresql://", 2),
        ("nonsense", "not a database URL", 2),
        ("postgresql://nobody@127.0.0.1:1/league", "LEAGUE_DATABASE_URL", 75),
    ],
)
def test_an_unusable_database_is_named_in_one_line(command: Run, url: str, says: str, code: int) -> None:
    """With a status of its own where it may do later: a wrong address looks like a server that is away."""
    outcome = command("db", "check", "--database-url", url)
    assert outcome.code == code
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
    assert_names(outcome.out, 1)
    assert command("rebuild", "--home", tmp_path).code == 0


def test_rebuild_dry_run_compares_configs_without_changes(
    online: Run, scene: Scene, snapshot: wire.Player, tmp_path: Path
) -> None:
    before = scene.client.standings(scene.environment)
    new = tmp_path / "new.toml"
    new.write_text("tau = 1.0\ndeviation_cap = 100\n[refit]\nenabled = false\n")
    outcome = online("rebuild", "--config", new, "--dry-run", "--home", tmp_path)
    assert outcome.code == 0
    assert "nothing changed" in outcome.out
    assert "± 200" in outcome.out
    assert scene.client.standings(scene.environment) == before
    told = json.loads(online("rebuild", "--config", new, "--dry-run", "--json", "--home", tmp_path).out)
    assert told["applied"] is False
    assert told["proposed"]["config"]["deviation_cap"] == 100
    assert {item["name"] for item in told["items"]} == {row.name for row in before.items}


def test_rebuild_with_another_config_stores_it(
    online: Run, scene: Scene, snapshot: wire.Player, tmp_path: Path
) -> None:
    new = tmp_path / "new.toml"
    new.write_text("deviation_cap = 100\n")
    outcome = online("rebuild", "--config", new, "--reason", "too wide", "--home", tmp_path)
    assert outcome.code == 0
    (period,) = scene.client.periods().items
    assert (period.version, period.reason) == (2, "too wide")
    assert all(row.deviation <= 100 for row in scene.client.standings(scene.environment).items if row.games)


@pytest.mark.parametrize(
    ("content", "value"),
    [("tau = ", "TOML"), ("tua = 1", "tau"), (None, "TOML")],
)
def test_a_config_that_cannot_be_used_is_named_in_one_line(
    online: Run, scene: Scene, snapshot: wire.Player, tmp_path: Path, content: str | None, value: str
) -> None:
    if content is not None:
        (tmp_path / "new.toml").write_text(content)
    outcome = online("rebuild", "--config", tmp_path / "new.toml", "--dry-run", "--home", tmp_path)
    assert outcome.code == 2
    assert_names(outcome.one_line_error, value)


def test_check_command_lists_violations(online: Run, scene: Scene, snapshot: wire.Player, tmp_path: Path) -> None:
    sound = online("admin", "check", "--home", tmp_path)
    assert (sound.code, sound.out) == (0, "OK: no problems found\n")
    with sqlite3.connect(tmp_path / "league.db") as connection:
        connection.execute("UPDATE ratings SET rating = rating + 1")
    connection.close()
    outcome = online("admin", "check", "--home", tmp_path)
    assert outcome.code == 1
    assert "broken invariant ratings" in outcome.one_line_error
    assert "league rebuild" in outcome.out
    told = json.loads(online("admin", "check", "--json", "--home", tmp_path).out)
    assert [item["invariant"] for item in told["items"]] == ["ratings"]
    dry = online("rebuild", "--dry-run", "--home", tmp_path)
    assert "without --dry-run" in dry.one_line_error
    assert online("rebuild", "--home", tmp_path).code == 1
    assert online("admin", "check", "--home", tmp_path).code == 0


def test_superiority_shows_bands_and_how_sure_the_order_is(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    outcome = online("player", "superiority")
    assert outcome.code == 0
    first = next(line for line in outcome.out.splitlines() if line.strip().startswith("1"))
    assert snapshot.name in first
    told = json.loads(online("player", "superiority", "--json", "--limit", 1).out)
    assert [player["player_id"] for player in told["players"]] == [snapshot.id]
