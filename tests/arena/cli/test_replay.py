import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from recordings import make_recording, make_steps, unpack
from refused import assert_names
from rich.console import Console

from arena.cli import main
from arena.cli import replay as command
from arena.replay import read_recording, write_recording


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    with pytest.raises(SystemExit) as exit_info:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return exit_info.value.code or 0, captured.out, captured.err


@pytest.fixture
def match(tmp_path: Path) -> Path:
    path = tmp_path / "match.replay.json.gz"
    write_recording(path, make_recording())
    return path


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    path = tmp_path / "steps.replay.json.gz"
    write_recording(path, make_steps())
    return path


def test_match_command_records_its_first_match(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "rps.replay.json.gz"
    arguments = ("match", "random", "random", "--environment", "rps", "--matches", "6", "--seed", "3", "--json")

    _, plain, _ = run(capsys, *arguments)
    code, out, err = run(capsys, *arguments, "--record", path)

    assert code == 0
    without_speed = [{k: v for k, v in json.loads(text).items() if k != "decisions_per_s"} for text in (plain, out)]
    assert without_speed[0] == without_speed[1]
    assert err.startswith(f"recorded the first match, random at home, to {path}: 1 decision, ")
    assert unpack(path)["kind"] == "steps"


def test_replay_prints_tables_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str], match: Path, steps: Path):
    code, out, err = run(capsys, "replay", match)
    _, listed, _ = run(capsys, "replay", steps)

    assert (code, err) == (0, "")
    assert "home medium 1 destroys away medium 1" in out
    assert "choice 1, move 0.25 -1" in listed


def test_replay_prints_json(capsys: pytest.CaptureFixture[str], match: Path):
    code, out, _ = run(capsys, "replay", match, "--json")

    assert code == 0
    assert json.loads(out)["outcome"] == {"score": 1.0, "reason": "elimination", "decisions": 8}


def test_replay_plays_in_a_terminal(capsys: pytest.CaptureFixture[str], match: Path, monkeypatch: pytest.MonkeyPatch):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, height=24, color_system="truecolor")
    monkeypatch.setattr(command, "stdout", lambda: console)
    monkeypatch.setattr(command, "HOLD_S", 0.0)

    code, _, _ = run(capsys, "replay", match, "--speed", "4", "--from", "1")

    assert code == 0
    assert "0:00 of 1:00" in shown.getvalue()
    assert "0:02 of 1:00" in shown.getvalue()
    assert "home wins, by elimination" in shown.getvalue()


def test_replay_writes_a_gif_of_a_stretch(capsys: pytest.CaptureFixture[str], match: Path, tmp_path: Path):
    out = tmp_path / "match.GIF"

    code, _, err = run(
        capsys, "replay", match, "--out", out, "--size", "160", "--from", "2", "--to", "6", "--speed", "2"
    )

    assert code == 0
    assert err.startswith(f"wrote {out}: 6 pictures")
    with Image.open(out) as picture:
        assert picture.n_frames == 6


def test_replay_writes_an_mp4(capsys: pytest.CaptureFixture[str], match: Path, tmp_path: Path):
    pytest.importorskip("av")
    out = tmp_path / "match.mp4"

    code, _, _ = run(capsys, "replay", match, "--out", out, "--size", "160", "--fps", "4")

    assert code == 0
    assert out.read_bytes()[4:8] == b"ftyp"


@pytest.mark.integration
@pytest.mark.parametrize(("module", "out", "told"), [("av", "a.mp4", "PyAV"), ("PIL", "a.gif", "Pillow")])
def test_missing_package_error_names_the_extra(match: Path, tmp_path: Path, module: str, out: str, told: str):
    without = f"import sys; sys.modules['{module}'] = None; from arena.cli import main; "

    ran = subprocess.run(
        [sys.executable, "-c", without + f"main(['replay', '{match}', '--out', '{tmp_path / out}'])"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 1
    assert_names(ran.stderr, told, "echelon-league")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--out", "match.avi"), ".gif or .mp4"),
        (("--from", "8"), "a match of 8"),
        (("--from", "5", "--to", "5"), "a match of 8"),
        (("--to", "9"), "a match of 8"),
        (("--speed", "0"), "--speed"),
        (("--fps", "51"), "--fps"),
    ],
)
def test_bad_usage_exits_with_two(
    capsys: pytest.CaptureFixture[str], match: Path, arguments: tuple[str, ...], told: str
):
    code, out, err = run(capsys, "replay", match, *arguments)

    assert (code, out) == (2, "")
    assert told in err
    assert "Traceback" not in err


def test_steps_have_no_picture(capsys: pytest.CaptureFixture[str], steps: Path, tmp_path: Path):
    code, _, err = run(capsys, "replay", steps, "--out", tmp_path / "a.gif")

    assert code == 2
    assert "has no animation" in err


def test_user_errors_are_one_line(capsys: pytest.CaptureFixture[str], match: Path, tmp_path: Path):
    (tmp_path / "file").write_text("hello")
    below = tmp_path / "file" / "below.gif"
    game = ("match", "random", "random", "--environment", "rps", "--matches", "2")

    for arguments in (
        ("replay", tmp_path / "gone"),
        ("replay", tmp_path / "file"),
        ("replay", match, "--out", below, "--size", "160", "--to", "1"),
        (*game, "--record", below),
    ):
        code, _, err = run(capsys, *arguments)
        assert (code, err.count("\n")) == (1, 1)
        assert err.startswith("arena: ")


def test_series_is_shown_even_if_its_recording_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "file").touch()
    game = ("match", "random", "random", "--environment", "rps", "--matches", "2", "--json")

    code, out, err = run(capsys, *game, "--record", tmp_path / "file" / "below")

    assert code == 1
    assert json.loads(out)["matches"] == 2
    assert err.startswith("arena: cannot write the recording")


def test_recording_that_a_command_wrote_is_read_again(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "recall.gz"

    run(capsys, "match", "random", "random", "--environment", "recall", "--matches", "1", "--record", path)

    assert len(read_recording(path).steps) == 8
