"""What pages do where the server is busy or away, and where a reader goes back."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from browsing import until
from playwright.sync_api import expect

BUSY = {
    "status": 503,
    "content_type": "application/problem+json",
    "body": json.dumps({"detail": "busy: <b>others</b> wait before it"}),
}
FILTERED = "**/standings?*q=*"
LIVE = '[data-live-state="live"]'


@pytest.fixture
def page(visit: Callable[..., Any]) -> Iterator[Any]:
    opened = visit("/standings", expect_errors=True)
    opened.wait_for_selector(LIVE)
    yield opened
    opened.unroute_all()


def test_busy_server_shows_a_message_until_it_recovers(page: Any) -> None:
    page.route(FILTERED, lambda route: route.fulfill(**BUSY))
    for sought in ("a", "ab"):
        page.fill("#q", sought)
        expect(page.locator("#notice")).to_have_text("busy: <b>others</b> wait before it")
    page.unroute(FILTERED)
    page.fill("#q", "")
    expect(page.locator("#notice")).to_have_text("")
    assert page.locator("#standings tbody tr").count() > 1


def test_unreachable_server_shows_a_message_until_it_responds(page: Any) -> None:
    page.route(FILTERED, lambda route: route.abort())
    page.fill("#q", "a")
    expect(page.locator("#notice")).to_contain_text("does not respond")
    page.evaluate("document.dispatchEvent(new CustomEvent('league:period', {detail: {}}))")
    expect(page.locator("#notice")).to_have_text("")


def test_message_disappears_after_reconnecting(page: Any) -> None:
    page.route("**/live", lambda route: route.abort())
    page.reload()
    page.wait_for_selector("[data-live-state=connecting]")
    page.route(FILTERED, lambda route: route.abort())
    page.fill("#q", "a")
    expect(page.locator("#notice")).to_contain_text("does not respond")
    page.unroute("**/live")
    page.wait_for_selector(LIVE)
    expect(page.locator("#notice")).to_have_text("")


@pytest.mark.parametrize("path", ["/standings?sort=games", "/events?periods=on"])
def test_expired_token_redirects_to_sign_in_and_back(visit: Callable[..., Any], served: Any, path: str) -> None:
    page = visit(path, expect_errors=True)
    page.wait_for_selector(LIVE)
    page.context.clear_cookies()
    page.route("**/live", lambda route: route.fulfill(status=503, body=""))
    page.evaluate("document.dispatchEvent(new CustomEvent('league:return'))")
    page.wait_for_selector("#token")
    page.fill("#token", served.tokens["read"])
    page.click("button.primary")
    page.wait_for_url(f"{served.url}{path}")


def test_a_page_follows_again_after_an_answer_that_was_no_stream(page: Any) -> None:
    answers = iter([BUSY])

    def answer(route: Any) -> None:
        busy = next(answers, None)
        route.continue_() if busy is None else route.fulfill(**busy)

    page.add_init_script("document.addEventListener('league:return', () => (window.returned = true))")
    page.route("**/live", answer)
    page.reload()
    page.wait_for_selector(LIVE)
    assert next(answers, None) is None
    assert page.evaluate("window.returned")


def test_ages_use_the_clock_of_the_server(visit: Callable[..., Any]) -> None:
    oldest = "#standings tr:has(> th a:text-is('main')) time"
    page = visit("/standings?kind=learner")
    days = int(page.inner_text(oldest).removesuffix(" d"))
    for ahead in (timedelta(days=40), -timedelta(days=40)):
        page.clock.install(time=datetime.now(UTC) + ahead)
        page.reload()
        until(page, "Math.abs(Date.now() - Date.parse(document.querySelector('meta[name=now]').content)) > 3e9")
        page.wait_for_selector(LIVE)
        assert days <= int(page.inner_text(oldest).removesuffix(" d")) <= days + 1


@pytest.mark.parametrize("width", [360, 1280])
def test_a_reason_of_any_length_stays_in_its_place(visit: Callable[..., Any], served: Any, width: int) -> None:
    reason = "W" * 400 + "\u202e<b>reversed</b>\n\N{CROWN}"
    with served.client() as client:
        found = client.standings(served.league.environment, standing="candidate", limit=20).items[-2].id
        client.retire(found, reason)
        client.reinstate(found, reason)
    page = visit(f"/events?player={found}", viewport={"width": width, "height": 800})
    assert page.locator(".log bdi").first.text_content() == reason
    assert page.locator(".log .wrap b").count() == 0
    whole = "document.querySelector('.scroll').scrollWidth <= document.querySelector('.scroll').clientWidth"
    assert page.evaluate(whole)
    page.goto(f"/players/{found}")
    assert page.locator(".story").evaluate("list => list.scrollWidth <= list.clientWidth")


LONG_NAMES = """() => { for (const one of document.querySelectorAll("#standings .named > :is(a, .alias)"))
    one.textContent = "W".repeat(64); }"""
FITS = "document.querySelector('#standings table').scrollWidth <= document.querySelector('#standings').clientWidth"


@pytest.mark.parametrize("width", [360, 1241, 1280, 1920])
def test_names_of_any_length_leave_every_column_in_sight(visit: Callable[..., Any], width: int) -> None:
    page = visit("/standings", viewport={"width": width, "height": 800})
    assert page.evaluate(FITS)
    page.evaluate(LONG_NAMES)
    assert page.evaluate(FITS)


def test_going_back_brings_the_whole_page_as_it_was_asked_for(page: Any) -> None:
    page.click("#sort-games")
    page.wait_for_url("**sort=games**")
    page.go_back()
    page.wait_for_selector(LIVE)
    assert "sort=games" not in page.url
    expect(page.locator("th[aria-sort]")).to_have_class("number is-rank")
    assert page.locator("header.top").count() == 1
