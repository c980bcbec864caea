import io
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageSequence
from recordings import DECISIONS, make_header, make_recording, make_steps
from rich.console import Console, RenderableType

from arena.replay import MechRecording, Result
from arena.replay.mech.events import Kill
from arena.replay.render.image.hud import Hud
from arena.replay.render.image.painter import Painter
from arena.replay.render.interpolate import Interpolator
from arena.replay.render.palette import AWAY, HOME
from arena.replay.render.pixels import PixelMap
from arena.replay.render.stats import count_up
from arena.replay.render.summary import summarise, tabulate
from arena.replay.render.terminal import TerminalView
from arena.replay.render.text import describe, describe_outcome, write_plainly
from arena.replay.render.video import Clip, durations_ms, make_gif, make_mp4


@pytest.fixture
def stage() -> Interpolator:
    return Interpolator(make_recording())


def ignore(drawn: int) -> None:
    pass


def write(renderable: RenderableType, width: int = 100, height: int = 40, **options: object) -> str:
    console = Console(width=width, height=height, file=io.StringIO(), **options)
    console.print(renderable)
    return console.file.getvalue()


def frames_of(gif: bytes) -> Iterator[Image.Image]:
    return ImageSequence.Iterator(Image.open(io.BytesIO(gif)))


def near(picture: Image.Image, colour: tuple[int, int, int]) -> int:
    """How many pixels have that colour, or nearly."""
    return int((np.abs(np.asarray(picture, dtype=np.int64) - colour).sum(axis=-1) < 30).sum())


# --- moments between frames --------------------------------------------------------------------------------------


def test_mechs_move_and_turn_the_shorter_way_between_frames(stage: Interpolator):
    home = stage.at(2.25).mechs[0]

    assert home.x == pytest.approx(-1.75)
    assert math.degrees(home.angle) % 360 == pytest.approx(1.25)
    assert stage.at(0.0).mechs[0].x == pytest.approx(-4.0)
    assert stage.at(float(DECISIONS)).mechs[0].x == pytest.approx(4.0)


def test_shells_fly_from_their_owner_through_their_places(stage: Interpolator):
    [launched], [flying], [spent] = (stage.at(moment).shells for moment in (1.5, 2.5, 3.2))

    assert (launched.weapon, launched.owner) == ("gauss", 0)
    assert launched.x == pytest.approx(0.5 * (-2.5))
    assert (flying.x, flying.y) == pytest.approx((3.0, 1.125))
    assert (spent.x, spent.y) == pytest.approx((6.0, 2.25))
    assert stage.at(3.7).shells == ()


def test_smoke_thickens_hangs_and_thins(stage: Interpolator):
    density = [sum(cloud.density for cloud in stage.at(moment).clouds) for moment in (0.0, 1.0, 4.0, 6.5, 8.0)]

    assert density == pytest.approx([0.0, 0.25, 1.0, 0.375, 0.0])


def test_zone_is_held_from_the_decision_in_which_it_was_taken(stage: Interpolator):
    assert [stage.at(float(frame)).holder for frame in (0, 2, 3, 8)] == ["nobody", "nobody", "home", "home"]
    assert stage.at(4.5).zone_s == pytest.approx((0.625, 0.0))


def test_the_last_events_are_those_worth_reading(stage: Interpolator):
    assert [event.kind for event in stage.latest(5, 3)] == ["zone", "fall", "intercept"]
    assert [event.kind for event in stage.latest(8, 3)] == ["intercept", "kill", "end"]
    assert stage.latest(2, 3) == []


# --- words and numbers -------------------------------------------------------------------------------------------


def test_events_are_rendered_as_text():
    recording = make_recording()

    told = [write_plainly(describe(event, recording.header)) for event in recording.events]

    assert told == [
        "home medium 1 paints away medium 1",
        "home medium 1 launches smoke",
        "home takes the zone",
        "away medium 1 falls",
        "away medium 1 shoots down 2 missiles",
        "home medium 1 destroys away medium 1",
        "home wins, by elimination",
    ]


def test_kills_by_terrain_and_assists_are_distinguished():
    header = make_header()

    assert write_plainly(describe(Kill("kill", 1, 0, None, ()), header)) == "home medium 1 is destroyed by the ground"
    assert write_plainly(describe(Kill("kill", 1, 0, 1, (0,)), header)).endswith("destroys home medium 1, 1 helped")


@pytest.mark.parametrize(
    ("score", "words"), [(1.0, "home wins"), (0.0, "away wins"), (0.5, "draw"), (0.75, "home wins")]
)
def test_outcome_is_derived_from_the_score_of_home(score: float, words: str):
    header = make_header()
    object.__setattr__(header, "outcome", Result(score, "time", 8))

    assert write_plainly(describe_outcome(header)) == f"{words}, by time"


def test_damage_is_summed_per_attacker_and_target():
    recording = make_recording()

    at_end, before_kill = count_up(recording, DECISIONS), count_up(recording, 5)

    assert at_end.dealt.tolist() == [1375, 0]
    assert at_end.taken.tolist() == [0, 1500]
    assert (at_end.kills.tolist(), before_kill.kills.tolist()) == ([1, 0], [0, 0])
    assert before_kill.dealt.tolist() == [500, 0]
    assert at_end.zone_frames.tolist() == [6, 0]
    assert (at_end.paints.tolist(), at_end.falls.tolist(), at_end.friendly.tolist()) == ([1, 0], [0, 1], [0, 0])


def test_summary_holds_all_but_the_frames():
    summary = summarise(make_recording())

    assert summary["seed"] == str(2**62 + 1)
    assert summary["players"] == {"home": "lieutenant", "away": "bob"}
    assert summary["duration_s"] == 2.0
    assert summary["zone_s"] == {"home": 1.5, "away": 0.0}
    home, away = summary["mechs"]
    assert (home["dealt"], home["kills"], home["hp_percent"]) == (137.5, 1, 100)
    assert (away["taken"], away["falls"], away["hp_percent"]) == (150.0, 1, 0)
    assert [event["kind"] for event in summary["events"]][-2:] == ["kill", "end"]
    assert "frames" not in summary


def test_tables_name_the_outcome_every_mech_and_every_event():
    text = write(tabulate(make_recording()), width=200)

    assert "home wins, by elimination" in text
    assert "8 (2 s)" in text
    assert "home medium 1" in text
    assert "1.50 s  home medium 1 destroys away medium 1" in text
    assert "paints" not in text.rsplit("zone s", 1)[1]


def test_steps_list_the_agents_to_move():
    text = write(tabulate(make_steps()), width=200)

    assert "home 0" in text
    assert "choice 1, move 0.25 -1" in text
    assert "choice 2, move 1 0.5" in text
    assert "choice 0" not in text


# --- the terminal ------------------------------------------------------------------------------------------------

SNAPSHOT = """\
0:01 of 1:00  mech-duel  zone: home
lieutenant ░░░░░░░░░░░░░░░░ 0.8 of 30.0 s
bob        ░░░░░░░░░░░░░░░░ 0.0 of 30.0 s
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀           hp       heat kills damage
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀  medium 1 ████████ ██░░           50
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀  medium 1 ████░░░░ ██░░            0
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀←M▀▀▀▀▀▀▀
▀▀▀▀▀▀▀▀▀▀▀▀M→▀▀▀▀▀▀▀▀▀▀
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀

 0:01  medium 1 shoots down 2 missiles
 0:01  medium 1 falls
 0:00  home takes the zone
"""


def test_terminal_shows_map_score_rosters_and_events(stage: Interpolator):
    shown = write(TerminalView(stage, 70, 20).show(5.0), width=70)

    assert [line.rstrip() for line in shown.splitlines()] == [*SNAPSHOT.splitlines(), ""]


def test_terminal_has_colours_and_leaves_rosters_out_where_there_is_no_room(stage: Interpolator):
    shown = write(TerminalView(stage, 40, 24).show(6.0), width=40, force_terminal=True, color_system="truecolor")

    assert "38;2;86;170;245" in shown
    assert "heat" not in shown
    assert len(shown.splitlines()) <= 24


@pytest.mark.parametrize("flat", [True, False])
def test_pixels_show_ground_zone_beams_and_smoke(flat: bool):
    stage = Interpolator(make_recording(flat=flat))
    pixels = PixelMap(stage.recording.battlefield, 80)

    calm, fight = pixels.paint(stage.at(0.0)).astype(int), pixels.paint(stage.at(5.0)).astype(int)

    row, column = pixels.locate(5.0, 2.0)
    assert (np.abs(fight - calm).sum(axis=-1) > 30).sum() > 50
    assert len(np.unique(calm.reshape(-1, 3), axis=0)) > (3 if flat else 8)
    assert pixels.locate(-20.0, 20.0) == (0, 0)
    assert pixels.locate(20.0, -20.0) == (79, 79)
    assert (0 < row < 40, 40 < column < 80) == (True, True)


# --- pictures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speed", "pictures_per_s", "count"), [(1.0, 10, 21), (2.0, 10, 11), (1.0, 4, 9), (100.0, 10, 2)]
)
def test_gif_has_a_picture_for_every_moment(stage: Interpolator, speed: float, pictures_per_s: int, count: int):
    film = Clip(stage, 0, DECISIONS, speed, pictures_per_s, 160)
    drawn: list[int] = []

    pictures = list(frames_of(make_gif(film, drawn.append)))

    assert len(pictures) == len(film.moments) == sum(drawn) == count
    assert film.moments[-1] == DECISIONS


def test_gif_equals_the_drawn_frames(stage: Interpolator):
    film, painter = Clip(stage, 2, DECISIONS, 1.0, 4, 160), Painter(stage, 160)

    for picture, moment in zip(frames_of(make_gif(film, ignore)), film.moments, strict=True):
        drawn = np.asarray(painter.draw(moment), dtype=np.int64)
        shown = np.asarray(picture.convert("RGB"), dtype=np.int64)
        assert np.abs(shown - drawn).mean() < 4.0


@pytest.mark.parametrize("pictures_per_s", [1, 3, 10, 24, 30, 40, 50])
def test_gif_takes_as_long_as_it_is_meant_to(pictures_per_s: int):
    """A GIF counts in hundredths of a second: pictures that all had the same would play 40 a second as 50."""
    *shown, held = durations_ms(6 * pictures_per_s + 1, pictures_per_s)
    assert sum(shown) == 6000
    assert all(each % 10 == 0 and abs(each - 1000 / pictures_per_s) < 10 for each in shown)
    assert held == 2500


def test_gif_holds_its_last_picture(stage: Interpolator):
    durations = [picture.info["duration"] for picture in frames_of(make_gif(Clip(stage, 0, 2, 1.0, 4, 160), ignore))]

    assert durations == [250, 250, 2500]


def test_picture_shows_both_teams_and_more_than_the_ground(stage: Interpolator):
    painter = Painter(stage, 320)

    calm, fight, end = (painter.draw(moment) for moment in (0.0, 4.5, 8.0))

    assert calm.size == painter.size
    assert [length % 2 for length in calm.size] == [0, 0]
    assert near(calm, HOME) > 50 < near(calm, AWAY)
    assert len(np.unique(np.asarray(fight).reshape(-1, 3), axis=0)) > 200
    score = (0, 18, 220, 30)
    assert near(end.crop(score), HOME) > near(calm.crop(score), HOME)


def test_pictures_of_odd_sizes_are_even(stage: Interpolator):
    for map_size in (161, 333, 499):
        assert [length % 2 for length in Painter(stage, map_size).draw(3.0).size] == [0, 0]


def test_long_names_end_before_the_clock():
    recording = make_recording(make_header(players=("runs/" * 30 + "a.safetensors", "b")))
    board = Hud(Interpolator(recording), 640)

    picture = board.draw(Interpolator(recording).at(0.0))

    assert near(picture.crop((400, 10, 440, 36)), HOME) == 0
    assert near(picture.crop((300, 10, 371, 36)), HOME) > 0


def test_mp4_has_a_picture_for_every_moment_and_holds_the_last(stage: Interpolator):
    av = pytest.importorskip("av")

    data = make_mp4(Clip(stage, 0, DECISIONS, 1.0, 4, 160), ignore)

    with av.open(io.BytesIO(data)) as container:
        [stream] = container.streams.video
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        assert stream.average_rate == 4
    assert len(pictures) == 9 + 10
    assert pictures[0].std() > 10.0
    assert np.abs(pictures[0].astype(int) - pictures[-1]).max() > 50


def test_unknown_classes_and_weapons_are_rendered():
    recording = make_recording()
    strange = replace(
        recording,
        header=replace(recording.header, roles=("crawler", "crawler")),
        hulls={"crawler": recording.hulls["medium"]},
        weapons=("ray",) * 7,
    )

    assert Painter(Interpolator(strange), 160).draw(4.5).size == Painter(Interpolator(recording), 160).size
    assert "C" in write(TerminalView(Interpolator(strange), 70, 20).show(5.0), width=70)


def test_match_of_one_decision_can_be_shown(stage: Interpolator):
    film = Clip(stage, 0, 1, 1.0, 10, 160)

    assert len(list(frames_of(make_gif(film, ignore)))) == len(film.moments) == 4
    assert isinstance(stage.recording, MechRecording)
