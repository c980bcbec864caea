import gzip
import itertools
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recordings import make_recording, make_steps, pack, unpack
from refused import refused

from arena.environments import make
from arena.play.recording import RecordFirstMatch, record_match
from arena.play.series import play_series, resolve_policy
from arena.replay import (
    StepsRecording,
    file,
    pack_recording,
    read_recording,
    unpack_recording,
    write_recording,
)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "match.replay.json.gz"
    write_recording(path, make_recording())
    return path


def test_mech_recording_round_trips(written: Path):
    recording, back = make_recording(), read_recording(written)

    for part in ("frames", "shells", "beams", "hits", "smoke"):
        before, after = getattr(recording, part), getattr(back, part)
        for field in fields(before):
            np.testing.assert_array_equal(getattr(after, field.name), getattr(before, field.name), field.name)
    for name in ("header", "packs", "hulls", "weapons", "events", "decision_ms"):
        assert getattr(back, name) == getattr(recording, name)
    np.testing.assert_array_equal(back.battlefield.ground.material, recording.battlefield.ground.material)


def test_recording_of_open_ground_and_of_steps_come_back_as_they_were(tmp_path: Path):
    write_recording(tmp_path / "flat", make_recording(flat=True))
    write_recording(tmp_path / "steps", make_steps())

    assert read_recording(tmp_path / "flat").battlefield.ground is None
    assert read_recording(tmp_path / "steps") == make_steps()


def test_recording_is_written_deterministically_with_its_size(tmp_path: Path):
    sizes = [write_recording(tmp_path / name, make_recording()) for name in ("a", "b")]

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sizes == [(tmp_path / "a").stat().st_size] * 2


def test_file_is_json_that_a_browser_can_read(written: Path):
    said, recording = unpack(written), make_recording()

    assert said["header"]["seed"] == str(2**62 + 1)
    assert said["frames"]["x"][0] == [-400, 100, 100, 100, 100, 100, 100, 100, 100]
    for name in ("heading", "hp", "flags"):
        summed = [list(itertools.accumulate(column)) for column in said["frames"][name]]
        np.testing.assert_array_equal(np.array(summed).T, getattr(recording.frames, name))
    assert list(itertools.accumulate(said["hits"]["frame"])) == [4, 5, 6]
    assert said["hits"]["damage"] == [500, 125, 875]
    assert said["events"][5] == {"kind": "kill", "at": 6, "mech": 1, "by": 0, "assists": []}


def change(*path: str | int, to: object) -> Callable[[dict[str, Any]], None]:
    def apply(said: dict[str, Any]) -> None:
        *way, last = path
        for key in way:
            said = said[key]
        said[last] = to

    return apply


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (change("surprise", to=1), "surprise"),
        (change("frames", "wings", to=[]), "wings"),
        (change("frames", "x", 0, to=[1, 2]), "every frame"),
        (change("frames", "home_zone", to=[0]), "home_zone"),
        (change("frames", "hp", 1, 0, to=1.5), "frames.hp"),
        (change("frames", "hp", 1, 0, to="7"), "frames.hp"),
        (change("frames", "hp", 1, 0, to=True), "frames.hp"),
        (change("frames", "x", 0, 0, to=2**70), "2147483647"),
        (change("frames", "x", 0, to=[2**31 - 1] * 9), "2147483647"),
        (change("frames", "x", 0, 0, to=-(2**63)), "2147483647"),
        (change("hits", "target", to=[1, 1, 2]), "mech 1 to 2"),
        (change("hits", "damage", to=[1]), "Hits"),
        (change("hits", "frame", to=[6, -1, 0]), "out of order"),
        (change("beams", "weapon", to=[0, 7]), "weapon"),
        (change("shells", "frame", to=[2, 90]), "frame 2 to 92"),
        (change("smoke", "side", to=[2]), "side"),
        (change("events", 0, "mech", to=2), "mech of an event"),
        (change("events", 5, "by", to=-1), "mech of an event"),
        (change("events", 0, "at", to=9), "frame of an event"),
        (change("events", 0, "at", to=8), "out of order"),
        (change("events", 0, "kind", to="dance"), "dance"),
        (change("battlefield", "ground", "material", 3, to=6), "material"),
        (change("battlefield", "ground", "cells", to=39), "every cell"),
        (change("header", "seed", to=5), "seed"),
        (change("header", "seed", to=str(2**63)), "seed"),
        (change("header", "roles", to=["medium", "dragon"]), "hull"),
        (change("header", "roles", to=["medium"]), "role"),
        (change("header", "outcome", "score", to=2.0), "score"),
        (change("header", "outcome", "decisions", to=7), "shape"),
        (change("header", "players", to=["\x1b[2J", "b"]), "players"),
        (change("header", "environment", to=""), "environment"),
        (change("weapons", to=["laser\n"] * 7), "weapons"),
        (change("battlefield", "side", to=100_000), "side"),
        (change("packs", to=[0]), "pack"),
        (change("packs", to=[0, 2]), "pack 0 to 2"),
        (change("frames", "hp", 1, 0, to=101), "hp 1 to 101: only 0 to 100 exist"),
        (change("frames", "heading", 1, 0, to=360), "heading"),
        (change("frames", "flags", 0, 0, to=1024), "flags"),
        (change("frames", "z", 0, 0, to=-1), "z is below 0"),
        (change("frames", "home_tick", 0, to=101), "home_tick"),
        (change("frames", "x", 0, 0, to=2001), "place"),
        (change("shells", "slot", to=[2, 3]), "slot 2 to 3"),
        (change("kind", to="chess"), "chess"),
    ],
)
def test_damaged_recording_is_rejected(written: Path, damage: Callable[[dict[str, Any]], None], named: str):
    said = unpack(written)
    damage(said)

    with refused("invalid-recording", "arena match --record") as e:
        read_recording(pack(written, said))
    assert named in str(e.value)


def zipped(content: bytes) -> bytes:
    """Without the time of day: tests have the same names in every process."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b"", ()),
        (b"hello", ("gzip",)),
        (zipped(b'{"kind": "mech"}')[:-9], ("gzip",)),
        (zipped(b"hello"), ("JSON",)),
        (zipped(b'{"header": NaN}'), ("JSON",)),
        (zipped(b"[" * 100_000), ("JSON",)),
        (zipped(b"[1, 2]"), ("echelon-replay",)),
        (zipped(b'{"header": 3}'), ("echelon-replay",)),
        (zipped(b'{"header": {"format": "chess"}}'), ("echelon-replay",)),
        (
            zipped(b'{"header": {"format": "echelon-replay", "version": 2}}'),
            (2, 1),
        ),
        (zipped(b'{"header": {"format": "echelon-replay"}}'), (None,)),
    ],
)
def test_invalid_recording_is_rejected(tmp_path: Path, content: bytes, values: tuple):
    path = tmp_path / "odd.gz"
    path.write_bytes(content)

    with refused("invalid-recording", "odd.gz", *values):
        read_recording(path)


def test_a_recording_packs_into_the_bytes_of_its_file(tmp_path: Path):
    recording = make_recording()
    write_recording(tmp_path / "match", recording)

    assert pack_recording(recording) == (tmp_path / "match").read_bytes()
    assert pack_recording(unpack_recording(pack_recording(recording), "match")) == pack_recording(recording)
    with refused("invalid-recording", "what came", "gzip"):
        unpack_recording(b"hello", "what came")


def test_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file, "MAX_BYTES", 2**20)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(b"[" + b"1," * 2**25 + b"1]"))

    tracemalloc.start()
    with refused("invalid-recording", 1048576):
        read_recording(bomb)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 8 * 2**20


@pytest.mark.parametrize(
    ("steps", "values"),
    [
        (b"{}," * 500_000 + b"0", (500003, 500000)),
        (b"0," * 100_000 + b"0", ("steps.header.environment",)),
        (
            b'{"active":[],"rewards":[],"actions":{},' + b",".join(b'"%d":0' % key for key in range(2000)) + b"}",
            (),
        ),
    ],
)
def test_hostile_text_is_refused_without_all_of_its_faults(steps: bytes, values: tuple):
    """Some bytes of gzip would otherwise be gigabytes of objects, or as many faults to list."""
    head = b'{"kind":"steps","header":{"format":"echelon-replay","version":1},"steps":['
    with refused("invalid-recording", *values):
        unpack_recording(gzip.compress(head + steps + b"]}", compresslevel=1), "what came")


def test_a_reader_may_take_less_than_the_most():
    data = pack_recording(make_steps())
    assert unpack_recording(data, "what came", len(gzip.decompress(data))) == make_steps()
    with refused("invalid-recording", 10):
        unpack_recording(data, "what came", 10)


def test_recording_that_no_reader_would_take_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file, "MAX_BYTES", 1000)

    with refused("invalid-recording", 1000):
        write_recording(tmp_path / "long", make_recording())
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_read_or_written_are_named(tmp_path: Path):
    (tmp_path / "file").touch()

    with refused("invalid-recording", tmp_path / "gone"):
        read_recording(tmp_path / "gone")
    with refused("invalid-recording", tmp_path):
        read_recording(tmp_path)
    with refused("invalid-recording", tmp_path / "file" / "below"):
        write_recording(tmp_path / "file" / "below", make_recording())


def test_any_game_is_recorded_as_its_steps():
    film = RecordFirstMatch()
    random = resolve_policy("rps", "random")

    series = play_series("rps", random, random, matches=20, seed=4, watcher=film)
    recording = film.finish(("first", "second"))

    assert isinstance(recording, StepsRecording)
    first = series.matches[0]
    assert recording.header.outcome.score == first.score
    assert recording.header.seed == first.seed
    assert recording.header.players == ("first", "second")
    [step] = recording.steps
    payoff = ((0.0, -2.0, 1.0), (2.0, 0.0, -3.0), (-1.0, 3.0, 0.0))
    home, away = (int(choice) for choice in step.actions["choice"])
    assert step.rewards == (payoff[home][away], -payoff[home][away])


def test_recording_changes_no_match():
    random = resolve_policy("recall", "random")

    watched, alone = (
        play_series("recall", random, random, matches=30, seed=4, **w) for w in ({"watcher": RecordFirstMatch()}, {})
    )

    assert watched == alone


def test_long_game_is_recorded_to_its_end_and_no_further():
    film = RecordFirstMatch()
    random = resolve_policy("recall", "random")

    series = play_series("recall", random, random, matches=900, seed=4, watcher=film)
    recording = film.finish(("a", "b"))

    assert len(recording.steps) == recording.header.outcome.decisions == series.matches[0].decisions == 8
    assert [step.active for step in recording.steps] == [(True, True)] * 8


def test_names_that_no_terminal_should_see_are_made_harmless():
    film, random = RecordFirstMatch(), resolve_policy("rps", "random")
    play_series("rps", random, random, matches=1, seed=4, watcher=film)

    assert film.finish(("a\x1b[2J" + "b" * 300, "")).header.players == ("b" * 200, "?")
    assert film.finish(("a\x1b", "b\n")).header.players == ("a?", "b?")


def test_match_that_is_not_over_has_no_recording():
    env = make("recall", num_envs=1)
    recorder = record_match(env, env.reset(), 0)

    with refused("call-order"):
        recorder.finish(("a", "b"))
    with refused("call-order"):
        RecordFirstMatch().finish(("a", "b"))


@pytest.mark.integration
def test_recordings_are_read_without_torch_or_warp():
    program = "import sys, arena.replay, arena.replay.render.terminal, arena.replay.render.summary; "
    program += "import arena.environments.mech.replay.frames; "
    program += "sys.exit(bool(set(sys.modules) & {'torch', 'warp', 'PIL', 'av'}))"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
