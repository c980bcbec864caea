"""`league admin gc`."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from league_command import Run
from league_scene import Scene, safetensors, sha256
from recorded_match import play_recorded
from recordings import make_steps
from refused import assert_names, refused

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.services.audit import log as audit_log


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def log_of(home: Path) -> list[wire.Event]:
    database = Database(f"sqlite:///{home / 'league.db'}")
    with database.read() as session:
        log = audit_log.read_after(session, 0, 100)
    database.close()
    return log


def upload(client: LeagueClient, folder: Path, content: int, hours: float) -> str:
    """Upload a checkpoint so many hours ago."""
    data = safetensors(content)
    client.upload(data, sha256(data))
    moment = datetime.now(UTC).timestamp() - hours * 3600
    os.utime(folder / sha256(data)[:2] / sha256(data), (moment, moment))
    return sha256(data)


def test_gc_dry_run_deletes_nothing(command: Run, scene: Scene, folder: Path, tmp_path: Path) -> None:
    scene.publish(1)
    name = upload(scene.client, folder, 10, 48)
    size = len(safetensors(10))
    outcome = command("admin", "gc", "--dry-run", "--home", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    assert name in outcome.out
    assert f"would free {size} bytes in 1 objects" in outcome.out
    assert (folder / name[:2] / name).exists()
    said = json.loads(command("admin", "gc", "--json", "--home", tmp_path).out)
    assert said["items"] == [{"name": name, "size_bytes": size}]
    assert (said["bytes"], said["kept"], said["missing"], said["damaged"]) == (size, 1, [], [])
    assert not (folder / name[:2] / name).exists()
    assert "freed 0 bytes in 0 objects" in command("admin", "gc", "--home", tmp_path).out
    (event,) = [event for event in log_of(tmp_path) if event.kind == "gc"]
    assert event.details == {"objects": 1, "bytes": size, "checkpoints": [name]}
    assert event.actor.endswith("at the command line")


def test_gc_keeps_files_younger_than_the_limit(command: Run, scene: Scene, folder: Path, tmp_path: Path) -> None:
    name = upload(scene.client, folder, 10, 2)
    command("admin", "gc", "--home", tmp_path)
    assert (folder / name[:2] / name).exists()
    assert command("admin", "gc", "--older-than", "0.5h", "--home", tmp_path).code == 2
    command("admin", "gc", "--older-than", "1.5h", "--home", tmp_path)
    assert not (folder / name[:2] / name).exists()


def test_missing_and_damaged_checkpoints_of_players_are_named(
    command: Run, scene: Scene, folder: Path, tmp_path: Path
) -> None:
    missing, damaged = (str(scene.publish(step).checkpoint) for step in (1, 2))
    assert command("admin", "gc", "--verify", "--home", tmp_path).code == 0
    (folder / missing[:2] / missing).unlink()
    (folder / damaged[:2] / damaged).write_bytes(b"rotten")
    unread = command("admin", "gc", "--home", tmp_path)
    assert missing in unread.one_line_error
    assert damaged not in unread.one_line_error
    for options in (("--dry-run",), ("--dry-run",), ()):  # a dry run leaves damaged bytes where they are
        read = command("admin", "gc", "--verify", *options, "--home", tmp_path).one_line_error
        assert_names(read, 1, missing, damaged)
    assert not (folder / damaged[:2] / damaged).exists()
    with refused("unknown-checkpoint", damaged):
        scene.client.download(damaged)


def test_recordings_without_a_match_are_deleted_and_damaged_ones_are_named(
    command: Run, scene: Scene, folder: Path, tmp_path: Path
) -> None:
    scene.publish(1)
    play_recorded(scene, make_steps())
    (recording,) = (folder / "replays").iterdir()
    orphan, moment = folder / "replays" / "7-ab.json.gz", datetime.now(UTC).timestamp() - 48 * 3600
    orphan.write_bytes(b"1234")
    os.utime(orphan, (moment, moment))
    os.utime(recording, (moment, moment))
    outcome = command("admin", "gc", "--verify", "--home", tmp_path)
    assert outcome.code == 0
    assert "replays/7-ab.json.gz" in outcome.out
    assert list((folder / "replays").iterdir()) == [recording]
    for damage in (lambda: recording.write_bytes(b"other"), recording.unlink):
        damage()
        assert_names(
            command("admin", "gc", "--verify", "--home", tmp_path).one_line_error, 1, f"replays/{recording.name}"
        )


@pytest.mark.parametrize("url", ["/proc/nowhere", "s3://Not_A_Bucket"])
def test_a_server_whose_store_cannot_be_used_does_not_start(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("LEAGUE_STORE_URL", url)
    command("db", "upgrade", "--home", tmp_path)
    outcome = command("serve", "--port", "0", "--home", tmp_path)
    assert outcome.code != 0
    assert url in outcome.one_line_error
