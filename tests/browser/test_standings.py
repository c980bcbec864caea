"""The standings in a browser: sorting, filtering, scrolling, and what happens in the league as it happens."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from browsing import until

from league.client import LeagueClient
from league.web import standings

LIVE_MS = 2000
"""Within which a change in the league is on the page; the server looks for news once a second."""

ATTEMPTS = 3
"""Of which one must succeed: others may keep the machine busy meanwhile."""

ROW = "#standings tbody tr[data-id]"

SNAPSHOTS = "/standings?kind=snapshot"
"""Of a learner nobody can retire anything, and it may be among the first."""


def column(page: Any, number: int) -> list[str]:
    """The text of a column, from the top."""
    return page.locator(f"{ROW} > :nth-child({number})").all_inner_texts()


def wait_for_table(page: Any, change: Callable[[], Any]) -> None:
    """Do something that has the table replaced, and wait until it is."""
    with page.expect_response(lambda answer: "hx-request" in answer.request.headers):
        change()
    until(page, "!document.querySelector('.htmx-request, .htmx-swapping, .htmx-settling')")


def is_live(page: Any) -> None:
    page.wait_for_selector("[data-live-state=live]")


def test_headings_sort_and_the_address_follows(visit: Callable[..., Any]) -> None:
    page = visit("/standings")
    wait_for_table(page, lambda: page.click("#sort-games"))
    games = [int(each.replace(",", "")) for each in column(page, 7)]
    assert games == sorted(games, reverse=True)
    assert page.url.endswith("?sort=games")
    wait_for_table(page, lambda: page.click("#sort-games"))
    games = [int(each.replace(",", "")) for each in column(page, 7)]
    assert games == sorted(games)
    page.reload()
    assert [int(each.replace(",", "")) for each in column(page, 7)] == games
    page.go_back()
    page.wait_for_selector("th[aria-sort=descending] #sort-games")


def test_filters_and_search_work_together(visit: Callable[..., Any]) -> None:
    page = visit("/standings")
    wait_for_table(page, lambda: page.select_option("#kind", "baseline"))
    assert {*column(page, 3)} == {"baseline"}
    wait_for_table(page, lambda: page.select_option("#kind", "snapshot"))
    wait_for_table(page, lambda: page.select_option("#role", "main_exploiter"))
    assert {*column(page, 4)} == {"main exploiter"}
    wait_for_table(page, lambda: page.fill("#q", "exploiter@12"))
    assert all("exploiter@12" in each for each in page.locator(f"{ROW} > th").all_text_contents())
    wait_for_table(page, lambda: page.fill("#q", "no such player"))
    page.wait_for_selector("text=No player matches these filters")
    assert page.evaluate("document.activeElement.id") == "q"


def test_an_order_outlives_a_filter(visit: Callable[..., Any]) -> None:
    page = visit("/standings")
    wait_for_table(page, lambda: page.click("#sort-games"))
    wait_for_table(page, lambda: page.select_option("#kind", "snapshot"))
    assert {"sort=games", "kind=snapshot"} <= set(page.url.partition("?")[2].split("&"))
    games = [int(each.replace(",", "")) for each in column(page, 7)]
    assert games == sorted(games, reverse=True)


@pytest.mark.parametrize("width", [360, 1280])
def test_the_champion_is_marked_whatever_the_width(visit: Callable[..., Any], served: Any, width: int) -> None:
    page = visit("/standings?q=reference", viewport={"width": width, "height": 800})
    line = page.locator(f"#player-{served.league.champion}")
    cell, badge = (line.locator(each).bounding_box() for each in ("th", ".badge.champion"))
    assert cell["x"] <= badge["x"]
    assert badge["x"] + badge["width"] <= cell["x"] + cell["width"]


def test_table_loads_more_rows_on_scrolling(visit: Callable[..., Any], served: Any) -> None:
    page = visit("/standings?show=all")
    assert page.locator(ROW).count() == 100
    for shown in (200, served.league.players):
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        until(page, f"document.querySelectorAll('{ROW}').length >= {shown}")
    assert page.locator(ROW).count() == served.league.players
    assert page.locator("tr.more").count() == 0


def test_page_has_a_row_limit_and_a_next_link(
    visit: Callable[..., Any], served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standings, "SHEET", 200)
    page = visit("/standings?show=all&sort=name")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    until(page, f"document.querySelectorAll('{ROW}').length >= 200")
    on = page.locator("tr.more a")
    assert on.inner_text() == f"{served.league.players - 200} more"
    on.click()
    page.wait_for_url("**offset=200")
    assert page.locator(ROW).count() == served.league.players - 200
    page.get_by_role("link", name="previous").click()
    page.wait_for_url("**sort=name")
    assert page.locator(ROW).count() >= 100


OBSERVED = """const observe = IntersectionObserver.prototype.observe;
window.observed = 0;
IntersectionObserver.prototype.observe = function (target) { window.observed += 1; observe.call(this, target); };"""


def test_each_line_is_looked_at_once_however_many_there_are(visit: Callable[..., Any]) -> None:
    """A hundred lines are a hundred events: looking at all lines at each of these made thousands take seconds."""
    page = visit("/standings?show=all")
    page.add_init_script(OBSERVED)
    page.reload()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    until(page, f"document.querySelectorAll('{ROW}').length >= 200")
    until(page, "!document.querySelector('.htmx-swapping, .htmx-settling')")
    assert 200 <= page.evaluate("observed") <= 300


NOTICED = """number => { window.noticed = new Promise(resolve => new MutationObserver(() =>
    (document.querySelector('[data-reorder]:not([hidden])') || !document.getElementById(`player-${number}`))
    && resolve(Date.now())
).observe(document.querySelector('main'), {subtree: true, childList: true, attributes: true})) }"""


def delay_ms(page: Any, client: LeagueClient, number: int) -> float:
    """Retire a player and return after what time a page shows that; then have it as it was."""
    page.goto(SNAPSHOTS)
    is_live(page)
    page.evaluate(NOTICED, number)
    asked_ms = time.time() * 1000
    client.retire(number, "for a moment")
    try:
        return float(page.evaluate("noticed")) - asked_ms
    finally:
        client.reinstate(number, "as before")


def test_a_change_in_the_league_is_on_the_page_within_two_seconds(visit: Callable[..., Any], served: Any) -> None:
    page = visit(SNAPSHOTS)
    number = int(page.locator(ROW).nth(4).get_attribute("data-id"))
    with served.client() as client:
        assert any(delay_ms(page, client, number) < LIVE_MS for _ in range(ATTEMPTS))


def test_lines_change_where_they_are_and_the_order_waits_for_its_reader(visit: Callable[..., Any], served: Any) -> None:
    page = visit(SNAPSHOTS)
    is_live(page)
    page.mouse.move(300, 400)  # somebody is there
    order = page.locator(ROW).evaluate_all("all => all.map(each => each.dataset.id)")
    with served.client() as client:
        client.retire(int(order[2]), "somebody is reading")
        try:
            button = page.locator("[data-reorder]")
            button.wait_for(state="visible")
            assert page.locator(ROW).evaluate_all("all => all.map(each => each.dataset.id)") == order
            assert "1 removed" in button.inner_text()
            wait_for_table(page, button.click)
            shown = page.locator(ROW).evaluate_all("all => all.map(each => each.dataset.id)")
            assert order[2] not in shown
            assert shown[:2] == order[:2]
        finally:
            client.reinstate(int(order[2]), "nobody is reading")


def test_a_hidden_page_follows_nothing_and_catches_up(visit: Callable[..., Any]) -> None:
    page = visit("/standings")
    is_live(page)
    hide = """hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
                          document.dispatchEvent(new Event('visibilitychange')) }"""
    page.evaluate(hide, True)
    page.wait_for_selector("[data-live-state=paused]")
    with page.expect_response("**/standings/now*"):
        page.evaluate(hide, False)
    is_live(page)


@pytest.mark.parametrize("javascript", [True, False])
def test_the_table_is_there_with_and_without_scripts(visit: Callable[..., Any], javascript: bool) -> None:
    page = visit("/standings?sort=name", java_script_enabled=javascript)
    page.wait_for_selector(ROW)
    assert page.locator(ROW).count() == 100
