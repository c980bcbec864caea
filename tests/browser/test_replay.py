"""A recorded match of ten mechs against ten in a real browser: it plays, pauses, steps, follows, zooms and tells."""

import gzip
from collections.abc import Callable
from typing import Any

import pytest
from recordings import make_recording, make_steps

from arena.replay import pack_recording
from arena.replay.render.palette import TEAMS
from arena.seeding import match_seed
from league import wire
from league.cli.demo.simulation import ENVIRONMENT, recorded_match

pytestmark = pytest.mark.browser

SOON_MS = 2000

PICTURE = "canvas => canvas.toDataURL()"
CLOCK, TIME, BATTLEFIELD = "[data-clock]", "[data-time]", "[data-battlefield]"


@pytest.fixture
def recording() -> Any:
    return recorded_match()


@pytest.fixture
def replay(visit: Callable[..., Any], served: Any) -> Any:
    page = visit(f"/matches/{served.league.recorded}")
    page.wait_for_selector(f"{BATTLEFIELD}:visible")
    return page


def settle(page: Any) -> None:
    """Wait until what was asked for is drawn: a replay shows everything with the next frame."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def frame(page: Any) -> int:
    return int(chosen(page, TIME))


def chosen(page: Any, control: str) -> str:
    settle(page)
    return str(page.locator(control).input_value())


def picture(page: Any) -> str:
    settle(page)
    return str(page.locator(BATTLEFIELD).evaluate(PICTURE))


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_it_plays_and_pauses_with_the_button_and_with_space(replay: Any) -> None:
    before = picture(replay)
    replay.locator(".start").click()
    replay.wait_for_function(f"() => Number(document.querySelector('{TIME}').value) > 4")
    replay.keyboard.press("Space")
    stopped = frame(replay)
    shown = picture(replay)
    assert shown != before
    assert "alive" in replay.locator("[data-state]").inner_text()
    replay.wait_for_timeout(400)
    assert (frame(replay), picture(replay)) == (stopped, shown)
    assert replay.locator(".transport [data-act=toggle]").get_attribute("aria-label") == "Play"


def test_replay_plays_at_higher_speed_and_shows_the_winner(replay: Any, recording: Any) -> None:
    replay.locator("[data-speed]").select_option("8")
    replay.locator(TIME).fill(str(recording.header.outcome.decisions - 8))
    replay.locator(".transport [data-act=toggle]").click()
    outcome = replay.locator("[data-outcome]")
    outcome.wait_for()
    assert f"by {recording.header.outcome.reason}" in outcome.inner_text()
    assert frame(replay) == recording.header.outcome.decisions
    assert replay.locator("#replay").get_attribute("data-playing") == "false"
    replay.locator(".transport [data-act=toggle]").click()
    replay.wait_for_function(f"() => Number(document.querySelector('{TIME}').value) < 50")


def test_keys_step_and_jump(replay: Any, recording: Any) -> None:
    press(replay, "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft")
    assert frame(replay) == 2
    press(replay, "Shift+ArrowRight")
    assert frame(replay) == 2 + round(5.0 / recording.decision_s)
    press(replay, "End")
    assert frame(replay) == recording.header.outcome.decisions
    assert replay.locator(CLOCK).inner_text() == replay.locator("[data-length]").inner_text(), "the last moment"
    press(replay, "Home", ".", ".")
    assert frame(replay) == 0
    assert chosen(replay, "[data-speed]") == "4"


def test_side_panel_equals_the_recording(replay: Any, recording: Any) -> None:
    middle = recording.header.outcome.decisions // 2
    replay.locator(TIME).fill(str(middle))
    settle(replay)
    hp = recording.frames.hp[middle]
    rows = replay.locator(".roster tbody tr")
    assert rows.count() == recording.header.agents
    told = [int(row.locator(".hull .visually-hidden").text_content().rstrip(" %")) for row in rows.all()]
    assert told == hp.tolist()
    assert rows.get_by_text("destroyed", exact=True).count() == int((hp == 0).sum())
    kills = [event for event in recording.events if event.kind == "kill" and event.at <= middle]
    said = replay.locator("[data-log] li:not(.ahead)").filter(has_text="destroy")
    assert said.count() == len(kills)


def test_zone_strip_distinguishes_sides_by_position(replay: Any, recording: Any) -> None:
    changes = [event for event in recording.events if event.kind == "zone"]
    contested = next(event for event in changes if event.after == "contested")
    at = (contested.at + 0.5) / recording.header.outcome.decisions
    lanes = """(canvas, share) => [-2, 1].map((from_middle) => [...canvas.getContext("2d").getImageData(
        share * canvas.width, (canvas.clientHeight / 2 + from_middle) * devicePixelRatio, 1, 1).data.slice(0, 3)])"""
    strip = replay.locator("[data-timeline]")
    settle(replay)
    assert [tuple(lane) for lane in strip.evaluate(lanes, at)] == list(TEAMS)
    assert strip.evaluate(lanes, 0.5 / recording.header.outcome.decisions) == [[0, 0, 0], [0, 0, 0]]


def test_a_line_of_the_log_leads_to_its_moment(replay: Any, recording: Any) -> None:
    kill = next(event for event in recording.events if event.kind == "kill")
    replay.locator("[data-log] button").filter(has_text="destroy").first.click()
    assert frame(replay) == kill.at - 1


def test_a_mech_is_followed_from_the_list_the_keyboard_and_the_map(replay: Any, recording: Any) -> None:
    whole = picture(replay)
    replay.locator(".roster.away tbody button").first.click()
    assert chosen(replay, "[data-follow]") == str(recording.header.agents_per_side[0])
    assert "hit points" in replay.locator("[data-chosen]").inner_text()
    replay.wait_for_timeout(600)
    assert picture(replay) != whole
    press(replay, "f")
    assert chosen(replay, "[data-follow]") == str(recording.header.agents_per_side[0] + 1)
    press(replay, "Escape")
    assert picture(replay) == whole
    canvas = replay.locator(BATTLEFIELD)
    width = canvas.bounding_box()["width"]
    side = recording.battlefield.side
    x, y = (float(column[0, 0]) / 100.0 for column in (recording.frames.x, recording.frames.y))
    place = {"x": (x + side / 2.0) / side * width, "y": (side / 2.0 - y) / side * width}
    canvas.click(position=place, force=True)  # the button that starts it lies over the middle
    assert chosen(replay, "[data-follow]") != ""


def test_the_map_zooms_and_moves(replay: Any) -> None:
    press(replay, "ArrowRight", "ArrowLeft")
    whole = picture(replay)
    press(replay, "+", "+")
    near = picture(replay)
    box = replay.locator(BATTLEFIELD).bounding_box()
    replay.mouse.move(box["x"] + 100, box["y"] + 100)
    replay.mouse.down()
    replay.mouse.move(box["x"] + 160, box["y"] + 140, steps=4)
    replay.mouse.up()
    assert len({whole, near, picture(replay)}) == 3
    press(replay, "-", "-", "-")
    assert picture(replay) == whole


def test_two_fingers_zoom_and_one_scrolls_the_page(visit: Callable[..., Any], served: Any) -> None:
    page = visit(
        f"/matches/{served.league.recorded}", viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True
    )
    page.wait_for_selector(f"{BATTLEFIELD}:visible")
    touch_action = f"() => getComputedStyle(document.querySelector('{BATTLEFIELD}')).touchAction"
    assert page.evaluate(touch_action) == "pan-y"
    page.evaluate(
        """selector => {
          const canvas = document.querySelector(selector), box = canvas.getBoundingClientRect();
          canvas.setPointerCapture = () => {};
          const finger = (kind, pointerId, x) => canvas.dispatchEvent(new PointerEvent(kind, {
            pointerId, clientX: box.x + x, clientY: box.y + 100, bubbles: true, pointerType: "touch",
          }));
          finger("pointerdown", 1, 100);
          finger("pointerdown", 2, 140);
          finger("pointermove", 2, 240);
          finger("pointerup", 1, 100);
          finger("pointerup", 2, 240);
        }""",
        BATTLEFIELD,
    )
    page.wait_for_selector(".picture[data-zoomed]")
    assert page.evaluate(touch_action) == "none"


def test_reduced_motion_disables_animations(visit: Callable[..., Any], served: Any, recording: Any) -> None:
    kill = next(event for event in recording.events if event.kind == "kill")
    seen = {}
    for motion in ("no-preference", "reduce"):
        page = visit(f"/matches/{served.league.recorded}", reduced_motion=motion)
        page.wait_for_selector(f"{BATTLEFIELD}:visible")
        page.locator(TIME).fill(str(kill.at))
        seen[motion] = picture(page)
    assert seen["reduce"] != seen["no-preference"]


def deliver(page: Any, served: Any, **answer: Any) -> None:
    """Load a match's page with another recording than the league has."""
    page.route("**/recording", lambda route: route.fulfill(**answer))
    page.goto(f"/matches/{served.league.recorded}")


def text_of(recording: Any) -> bytes:
    return gzip.decompress(pack_recording(recording))


def test_ground_of_every_material_is_drawn(visit: Callable[..., Any], served: Any) -> None:
    page = visit("/matches")
    deliver(page, served, content_type="application/json", body=text_of(make_recording()))
    page.wait_for_selector(f"{BATTLEFIELD}:visible")
    rough = picture(page)
    deliver(page, served, content_type="application/json", body=text_of(make_recording(flat=True)))
    page.wait_for_selector(f"{BATTLEFIELD}:visible")
    assert picture(page) != rough


def test_other_games_show_their_decisions(visit: Callable[..., Any], served: Any) -> None:
    page = visit("/matches")
    deliver(page, served, content_type="application/json", body=text_of(make_steps()))
    lines = page.locator("[data-steps] tbody tr")
    lines.first.wait_for()
    assert [line.locator("td").all_inner_texts() for line in lines.all()] == [
        ["1", "home: lieutenant", "medium", "choice 1, move (0.25, -1)", "+0.5", "+0.5"],
        ["2", "away: bob", "medium", "choice 2, move (1, 0.5)", "0", "\u22120.5"],
    ]
    assert not page.locator(BATTLEFIELD).is_visible()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"status": 404, "body": "{}"}, "the server returned status 404"),
        ({"status": 200, "body": '{"kind": "mech", "header": {"version": 2}}'}, "the recording has version 2"),
    ],
)
def test_unsupported_recording_shows_a_message(
    visit: Callable[..., Any], served: Any, answer: dict[str, Any], told: str
) -> None:
    page = visit("/matches", expect_errors=True)
    deliver(page, served, content_type="application/json", **answer)
    page.get_by_text(f"The recording cannot be shown: {told}").wait_for()


def test_new_matches_are_announced_and_shown_on_request(
    visit: Callable[..., Any], served: Any, report_match: Callable[[], int]
) -> None:
    page = visit("/matches")
    page.wait_for_selector("[data-live-state=live]")
    match_id = report_match()
    news = page.locator("[data-news]")
    news.wait_for(timeout=SOON_MS)
    assert news.inner_text() == "1 new match: show"
    news.click()
    page.locator(f"#matches a[href='/matches/{match_id}']").first.wait_for()
    assert not page.locator("[data-news]").is_visible()


def test_a_list_that_leaves_some_out_promises_no_more_of_them(
    visit: Callable[..., Any], served: Any, report_match: Callable[[], int]
) -> None:
    page = visit("/matches?recorded=true")
    page.wait_for_selector("[data-live-state=live]")
    report_match()
    page.get_by_role("button", name="1 new match before filters: reload").click()
    page.wait_for_selector("[data-news]", state="hidden")
    assert page.locator("#matches tbody tr").count() == 1


@pytest.fixture
def report_match(served: Any) -> Callable[[], int]:
    """Report a rating match; return its id."""

    def report() -> int:
        with served.client() as client:
            worker = next(each for each in client.workers().items if each.kind == "evaluator")
            request = wire.RatingLeases(kind="rating", worker_id=worker.id, environment=ENVIRONMENT, count=2, budget=1)
            lease, *_ = client.lease(request).items
            seed = match_seed(lease.seed, 0)
            result = wire.Result(lease_id=lease.lease_id, sequence=0, score=1.0, decisions=9, reason="zone", seed=seed)
            (answer,) = client.report(wire.ResultBatch(worker_id=worker.id, results=[result])).items
        return int(answer.match_id or 0)

    return report
