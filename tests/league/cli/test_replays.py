"""`league match replay` fetches what `arena replay` shows."""

from pathlib import Path

from league_command import Run
from league_scene import Scene
from recorded_match import play_recorded
from recordings import make_steps
from refused import assert_names

from arena.replay import StepsRecording, read_recording


def test_a_recording_is_fetched_for_the_arena(online: Run, scene: Scene, tmp_path: Path) -> None:
    scene.publish(1)
    match = play_recorded(scene, make_steps())
    path = tmp_path / "match.replay.json.gz"
    outcome = online("match", "replay", match.id, "--out", path)
    assert (outcome.code, outcome.err) == (0, "")
    assert_names(outcome.out, path)
    recording = read_recording(path)
    assert isinstance(recording, StepsRecording)
    assert recording.header.seed == match.seed


def test_refusals_are_one_line(online: Run, scene: Scene, tmp_path: Path) -> None:
    unknown = online("match", "replay", 77, "--out", tmp_path / "match")
    assert unknown.code == 1
    assert_names(unknown.one_line_error, 77)
    scene.publish(1)
    match = play_recorded(scene, make_steps())
    (tmp_path / "file").touch()
    nowhere = online("match", "replay", match.id, "--out", tmp_path / "file" / "match")
    assert (nowhere.code, "it cannot be written (" in nowhere.one_line_error) == (2, True)
