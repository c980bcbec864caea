"""The page of a player in a browser: its curve, its lineage, and the changes that an admin makes."""

from collections.abc import Callable
from typing import Any

import pytest
from browsing import LOADED, until

LONG_CONTENTS = """() => {
    const fill = (selector, html) => document.querySelectorAll(selector).forEach(each => each.innerHTML = html);
    fill(".cards tbody a[href^='/players/']", "league-exploiter<wbr>@1154000000");
    fill(".cards tbody a[href^='/matches?']", "102,400");
    fill(".cards tbody a[href^='/matches/']", "12345678");
    fill(".cards tbody .rating", "-1385 <span class='error'>± 1148</span>");
    fill("[data-column='2 SE']", "± 5.6e+02");
    document.querySelectorAll("td:has([data-column='2 SE'])").forEach(each => each.firstChild.data = "-1.23e+04 ");
    fill(".cards tbody .outcome + .soft", "· destroyed in the zone");
    document.querySelectorAll(".cards .named").forEach(each => each.insertAdjacentHTML(
        "beforeend", "<span class='badge quarantined'>quarantined</span>"));
    document.querySelectorAll(".cards a[href^='/matches/']").forEach(each => each.insertAdjacentHTML(
        "afterend", " <a class='badge'>▸ replay</a>"));
}"""
"""Makes the contents of all tables as long as they get."""

NOT_CUT = """() => [...document.querySelectorAll(".cards .scroll:has(table)")].every(
    (each) => each.scrollWidth <= each.clientWidth)"""


@pytest.fixture
def candidate(served: Any) -> int:
    """Id of a snapshot that is a candidate."""
    with served.client() as client:
        found = client.standings(served.league.environment, standing="candidate", limit=20).items
    return found[-1].id


def test_the_curve_is_drawn_and_read(visit: Callable[..., Any], served: Any) -> None:
    learner = served.league.learners["main"].player_id
    page = visit(f"/players/{learner}")
    page.wait_for_selector("[data-drawn]")
    with served.client() as client:
        points = client.ratings(learner).items
    assert page.get_attribute("[data-curve]", "data-drawn") == str(len(points))
    assert page.get_attribute("[data-curve]", "role") == "img"
    painted = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
    assert page.eval_on_selector("[data-curve] canvas", painted)
    newest = page.inner_text("[data-readout]")
    assert f"after period {points[-1].number}," in newest
    page.hover("[data-curve] .u-over", position={"x": 3, "y": 60})
    until(page, "before => document.querySelector('[data-readout]').textContent !== before", newest)
    assert f"after period {points[0].number}," in page.inner_text("[data-readout]")


def test_a_curve_of_one_point_spans_an_hour(visit: Callable[..., Any], served: Any) -> None:
    page = visit(f"/players/{served.league.learners['main'].player_id}")
    page.wait_for_selector("[data-drawn]")
    span = """async (at) => {
        const own = document.querySelector("script[src*='player.js']").src;
        const { interval } = await import(new URL("charts.js", own));
        const place = document.body.appendChild(document.createElement("div"));
        place.style.height = "200px";
        const each = (value) => at.map(() => value);
        const options = { range: (low, high) => [low, high], label: String, onHover: () => {} };
        const chart = interval(place, [at, each(1600), each(1400), each(1500)], options);
        await Promise.resolve();
        return [chart.scales.x.min, chart.scales.x.max];
    }"""
    assert page.evaluate(span, [7200]) == [5400, 9000]
    assert page.evaluate(span, [7200, 7260]) == [7200, 7260]


def test_lineage_and_behaviour_are_filled_before_scrolling(visit: Callable[..., Any], served: Any) -> None:
    page = visit(f"/players/{served.league.champion}")
    page.wait_for_selector(".descent .mark")
    assert page.locator(".descent a").count() > 50
    name = page.inner_text("h1")
    assert page.locator(".descent a[aria-current]").get_attribute("aria-label").startswith(name)
    page.wait_for_selector("text=engagement range m")


def test_panels_fill_a_wide_window(visit: Callable[..., Any], served: Any) -> None:
    page = visit(f"/players/{served.league.champion}", viewport={"width": 1920, "height": 1080})
    until(page, "document.querySelectorAll('.cards .scroll table').length >= 2")
    cards, last = (page.locator(each).last.bounding_box() for each in (".cards", ".cards > .card"))
    assert last["x"] + last["width"] == pytest.approx(cards["x"] + cards["width"], abs=1)


@pytest.mark.parametrize("width", [390, 820, 910, 1024, 1280, 1920])
def test_long_contents_cut_no_table_of_a_panel(visit: Callable[..., Any], served: Any, width: int) -> None:
    page = visit(f"/players/{served.league.champion}", viewport={"width": width, "height": 1080})
    until(page, LOADED)
    assert page.locator(".cards .scroll table").count() == len(("opponents", "matches", "behaviour"))
    page.evaluate(LONG_CONTENTS)
    until(page, NOT_CUT)


def test_a_checkpoint_is_downloaded(visit: Callable[..., Any], candidate: int) -> None:
    page = visit(f"/players/{candidate}")
    with page.expect_download() as download:
        page.click(".checkpoint >> text=Download")
    assert download.value.suggested_filename.endswith(".safetensors")
    assert page.locator(".checkpoint code").get_attribute("title") is not None


def test_signing_in_with_an_admin_token_promotes_and_a_reader_is_refused(
    visit: Callable[..., Any], served: Any, candidate: int
) -> None:
    reader = visit(f"/players/{candidate}", expect_errors=True)  # the refusal below
    assert reader.locator("dialog[id^=dialog-]").count() == 0
    page = visit(f"/players/{candidate}", None)
    page.fill("#token", served.tokens["admin"])
    page.click("button.primary")
    page.wait_for_url(f"**/players/{candidate}")
    page.click("[data-opens=dialog-promote]")
    page.fill("#reason-promote", "it holds the zone")
    with page.expect_navigation():
        page.click("dialog[open] button.primary")
    page.wait_for_selector(".head .badge.commander")
    assert "it holds the zone" in page.inner_text(".story")
    status = reader.evaluate(
        """id => fetch(`/players/${id}/retire`, {method: 'POST', redirect: 'manual',
           body: new URLSearchParams({reason: 'x', expected: 'commander'})}).then(answer => answer.status)""",
        candidate,
    )
    assert status == 403
    with served.client() as client:
        assert client.player(candidate).standing == "commander"


def test_conflicting_change_shows_the_current_state(visit: Callable[..., Any], served: Any, candidate: int) -> None:
    page = visit(f"/players/{candidate}", "admin", expect_errors=True)
    page.click("[data-opens=dialog-promote]")
    with served.client() as client:
        client.retire(candidate, "somebody was faster")
        try:
            page.fill("#reason-promote", "late")
            page.click("dialog[open] button.primary")
            page.wait_for_selector("#refused-promote >> text=it is retired; promote requires candidate")
        finally:
            client.reinstate(candidate, "after the test")
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
