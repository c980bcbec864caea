"""`league environment` creates, lists and deletes environments, and asks before matches are lost."""

import json
from contextlib import closing
from pathlib import Path

from league_command import Run
from league_scene import Scene
from refused import assert_names

from league import wire
from league.cli.up.token import create_environment, own_credential
from league.db.engine import Database
from league.services.environments import lookup as environments
from league.settings import Settings


def test_an_environment_is_created_once_and_listed(command: Run, tmp_path: Path) -> None:
    first = command("environment", "create", "mech-duel", "--home", tmp_path)
    assert first.code == 0
    assert_names(first.out, "created", "mech-duel")
    again = command("environment", "create", "mech-duel", "--home", tmp_path)
    assert (again.code, again.out) == (0, "mech-duel already exists\n")
    listed = command("environment", "list", "--json", "--home", tmp_path)
    assert json.loads(listed.out)["items"] == [
        {"name": "mech-duel", "signature": None, "sides": None, "max_decisions": None}
        | {"learners": 0, "players": 0, "matches": 0}
    ]
    assert command("environment", "list", "--home", tmp_path).out.split() == [
        "environment", "learners", "players", "matches", "mech-duel", "0", "0", "0",
    ]  # fmt: skip
    refused = command("environment", "create", "two words", "--home", tmp_path)
    assert refused.code == 2
    assert "environment='two words'" in refused.one_line_error


def test_matches_are_deleted_after_an_export_into_a_named_file_and_not_before(
    command: Run, scene: Scene, snapshot: wire.Player, tmp_path: Path
) -> None:
    delete = ("environment", "delete", "rps", "--home", tmp_path)
    file = tmp_path / "before.zip"
    assert "add `--force --export FILE`" in command(*delete).one_line_error
    assert "add `--export FILE`" in command(*delete, "--force").one_line_error
    assert "add `--force`" in command(*delete, "--export", file).one_line_error
    assert not file.exists()
    assert scene.client.players("rps").items
    file.write_text("something else")
    assert "it exists" in command(*delete, "--force", "--export", file).one_line_error
    assert scene.client.players("rps").items
    file.unlink()
    deleted = command(*delete, "--force", "--export", file)
    assert (deleted.code, deleted.err) == (0, "")
    assert deleted.out.startswith(f"{file}: the whole league, ")
    assert "deleted rps: 1 learners, 3 players and 8 matches" in deleted.out
    assert_names(command(*delete).one_line_error, "rps")
    there = tmp_path / "there"
    assert command("import", file, "--home", there).code == 0
    assert "bit-identical" in command("rebuild", "--home", there).out
    assert command("admin", "check", "--home", there).code == 0


def test_a_checkpoint_that_the_store_lost_stops_the_deletion_unless_it_is_allowed(
    command: Run, snapshot: wire.Player, tmp_path: Path
) -> None:
    for path in (tmp_path / "checkpoints").glob("*/*"):
        path.unlink()
    delete = ("environment", "delete", "rps", "--force", "--export", tmp_path / "before.zip", "--home", tmp_path)
    assert "--allow-missing" in command(*delete).one_line_error
    allowed = command(*delete, "--allow-missing")
    assert (allowed.code, f"omitted checkpoint {snapshot.checkpoint}" in allowed.err) == (0, True)


def test_an_unplayed_environment_is_deleted_without_a_question(command: Run, scene: Scene, tmp_path: Path) -> None:
    deleted = command("environment", "delete", "rps", "--home", tmp_path)
    assert (deleted.code, deleted.err) == (0, "")
    assert "deleted rps: 1 learners, 2 players and 0 matches; `league admin gc`" in deleted.out
    assert "no environments" in command("environment", "list", "--home", tmp_path).out
    assert command("admin", "check", "--home", tmp_path).code == 0
    log = scene.client.events().items
    assert [(each.kind, each.details["change"]) for each in log] == [("environment", "deleted")]
    assert log[0].actor.endswith("at the command line")


def test_league_up_creates_the_environment_that_it_is_started_for(command: Run, tmp_path: Path) -> None:
    command("token", "create", "boss", "--scope", "admin", "--home", tmp_path)
    settings = Settings.load(home=tmp_path)
    own_credential(settings, tmp_path / "up.token", "rps", "main")
    create_environment(settings, "recall")
    with closing(Database(settings.database_address)) as database, database.read() as session:
        assert [environments.is_created(session, name) for name in ("rps", "recall", "chess")] == [True, True, False]
