"""`league export` and `league import` move a league between folders, with one-line refusals."""

from pathlib import Path

import pytest
from league_command import Run
from league_scene import Scene
from refused import assert_names

from arena.evaluation import results_file
from arena.evaluation.report import evaluate
from league import wire


@pytest.fixture
def exported(command: Run, scene: Scene, snapshot: wire.Player, tmp_path: Path) -> Path:
    path = tmp_path / "league.zip"
    outcome = command("export", path, "--home", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"{path}: 3 players, 8 matches, 1 periods, 0 tokens and 1 checkpoints of ")
    return path


def test_a_league_moves_to_another_home(command: Run, exported: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    outcome = command("import", exported, "--home", there)
    assert (outcome.code, outcome.err) == (0, "")
    assert "3 players, 8 matches" in outcome.out
    assert "bit-identical" in command("rebuild", "--home", there).out
    assert command("export", tmp_path / "again.zip", "--home", there).code == 0


def test_transfer_errors_are_one_line(command: Run, exported: Path, tmp_path: Path) -> None:
    occupied = command("import", exported, "--home", tmp_path)
    assert occupied.code == 1
    assert_names(occupied.one_line_error, tmp_path)
    again = command("export", exported, "--home", tmp_path)
    assert again.code == 2
    assert_names(again.one_line_error, exported)
    for wrong in (tmp_path / "nowhere.zip", tmp_path):
        refused = command("import", wrong, "--home", tmp_path / "there")
        assert refused.code == 2
        assert_names(refused.one_line_error, wrong, "league export")
    assert not (tmp_path / "there").exists()


def test_a_checkpoint_that_is_left_out_is_named(command: Run, snapshot: wire.Player, tmp_path: Path) -> None:
    for path in (tmp_path / "checkpoints").glob("*/*"):
        path.unlink()
    refused = command("export", tmp_path / "league.zip", "--home", tmp_path)
    assert "--allow-missing" in refused.one_line_error
    allowed = command("export", tmp_path / "league.zip", "--allow-missing", "--home", tmp_path)
    assert allowed.code == 0
    assert f"omitted checkpoint {snapshot.checkpoint}" in allowed.err


def test_results_of_an_environment_are_exported_for_a_report(command: Run, exported: Path, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    outcome = command("export", file, "--results", "--home", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    found = results_file.read(file)
    assert f"{found.games.games.sum()} rating matches of {len(found.names)} players of rps" in outcome.out
    report = evaluate(found)
    assert [name for name, fixed in zip(found.names, found.anchor, strict=True) if fixed]
    assert (report.rating[found.anchor] == found.start[found.anchor]).all()
    again = command("export", file, "--results", "--home", tmp_path)
    assert_names(again.one_line_error, file)
    assert command("export", tmp_path / "league.zip", "--environment", "rps", "--home", tmp_path).code == 2
