"""Every page: it loads without an error, is accessible, is light, and shows something soon."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import LOADED, until
from PIL import Image

WEIGHT_MAX_BYTES = 500_000
FIRST_CONTENT_MAX_MS = 1000
ATTEMPTS = 3  # of which one must be in time: others may keep the machine busy meanwhile
PAGES = (
    "overview", "standings", "player", "head-to-head", "payoff", "training", "runs", "run", "difference", "matches",
    "match", "workers", "events", "sign-in",
)  # fmt: skip
SERIOUS = ("serious", "critical")
DRAWN = {
    "overview": "[data-drawn]",
    "player": "[data-drawn]",
    "payoff": "#map[data-drawn]",
    "training": ".plot canvas",
    "match": "[data-battlefield]:visible",
}
"""What is there once a page has drawn what a script draws."""
LOOKS = {
    "light": {"color_scheme": "light"},
    "dark-phone": {"color_scheme": "dark", "viewport": {"width": 360, "height": 780}},
}


def address(name: str, served: Any) -> str:
    """Where a page is."""
    if name == "player":
        return f"/players/{served.league.champion}"
    if name == "head-to-head":
        with served.client() as client:
            baselines = client.players(served.league.environment, kind="baseline").items
        often_played = next(each.id for each in baselines if each.name == "lieutenant")
        return f"/players/{often_played}/against/{served.league.learners['main'].player_id}"
    if name == "match":
        return f"/matches/{served.league.recorded}"
    if name == "run":
        return "/runs/1"
    if name == "difference":
        return "/runs/difference?first=1&second=2"
    return "/" if name == "overview" else f"/{name}"


def first_content_ms(page: Any) -> float:
    """Load a page anew and return when it showed something."""
    page.reload()
    painted = "performance.getEntriesByName('first-contentful-paint').map(each => each.startTime)"
    until(page, f"{painted}.length > 0")
    return float(page.evaluate(painted)[0])


MOVED_MAX = 0.05
"""Layout shift, of which 0.1 is called good (https://web.dev/articles/cls)."""
MOVED = """() => new Promise((done) => {
  let moved = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) moved += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => setTimeout(() => done(moved)));
})"""


def settle(page: Any) -> None:
    """Have a page load what it loads as a reader comes to it."""
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_load_state("domcontentloaded")
    page.wait_for_timeout(300)
    page.evaluate("scrollTo(0, 0)")


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_pages_are_accessible_fit_the_width_and_do_not_shift(
    name: str, look: str, visit: Callable[..., Any], served: Any
) -> None:
    page = visit(address(name, served), None if name == "sign-in" else "admin", **LOOKS[look])
    page.wait_for_selector(DRAWN.get(name, "main"))
    assert page.evaluate(MOVED) < MOVED_MAX
    settle(page)
    issues = [each for each in Axe().run(page).response["violations"] if each["impact"] in SERIOUS]
    told = [f"{each['id']}: {[node['html'][:120] for node in each['nodes'][:3]]}" for each in issues]
    assert told == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize("name", PAGES)
def test_tables_fit_a_phone(name: str, visit: Callable[..., Any], served: Any) -> None:
    page = visit(address(name, served), None if name == "sign-in" else "admin", viewport={"width": 390, "height": 844})
    until(page, LOADED)
    tables = page.locator(".scroll:has(table)")
    widths = tables.evaluate_all("all => all.map(each => [each.scrollWidth, each.clientWidth])")
    assert [table for table, panel in widths if table > panel] == []


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_small_self_contained_and_fast(name: str, visit: Callable[..., Any], served: Any) -> None:
    page = visit("/sign-in", None)
    sizes: dict[str, int] = {}
    page.on(
        "requestfinished", lambda request: sizes.__setitem__(request.url, max(0, request.sizes()["responseBodySize"]))
    )
    if name != "sign-in":
        page.fill("#token", served.tokens["read"])
        page.click("text=Sign in >> nth=-1")
        page.wait_for_url("**/")
    sizes.clear()
    page.goto(address(name, served))
    page.wait_for_timeout(300)
    assert 0 < sum(sizes.values()) < WEIGHT_MAX_BYTES
    assert all(url.startswith((served.url, "data:")) for url in sizes)
    assert any(first_content_ms(page) < FIRST_CONTENT_MAX_MS for _ in range(ATTEMPTS))


def test_every_page_is_reached_by_keyboard_from_the_first(visit: Callable[..., Any]) -> None:
    page = visit("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    leads = page.locator("nav[aria-label=Pages] a").evaluate_all("all => all.map(each => each.getAttribute('href'))")
    assert leads == ["/", "/standings", "/payoff", "/training", "/matches", "/workers", "/events"]


@pytest.mark.parametrize("name", ["standings", "events"])
def test_the_entry_of_the_page_is_in_sight_on_a_phone(name: str, visit: Callable[..., Any], served: Any) -> None:
    page = visit(address(name, served), viewport={"width": 360, "height": 780})
    entry = page.locator("nav [aria-current=page]")
    until(page, "document.querySelector('nav [aria-current=page]').getBoundingClientRect().right <= innerWidth")
    assert entry.bounding_box()["x"] >= 0


def test_light_and_dark_are_switched_and_remembered(visit: Callable[..., Any]) -> None:
    page = visit("/", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("[data-theme-switch]")
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark
    page.click("[data-theme-switch]")
    assert page.evaluate(ground) == light


def test_times_are_the_readers(visit: Callable[..., Any], served: Any) -> None:
    path = address("player", served)
    here, there = (visit(path, timezone_id=zone) for zone in ("UTC", "Asia/Tokyo"))
    time = "dl time"
    assert here.get_attribute(time, "title") == there.get_attribute(time, "title")
    assert f"{here.inner_text(time)} UTC" == here.get_attribute(time, "title")
    elsewhere = "(time => `${time.textContent} UTC` !== time.title)(document.querySelector('dl time'))"
    until(there, elsewhere)


IN_THE_FIGHT = "time => { time.value = Math.round(time.max * 0.7); time.dispatchEvent(new Event('input')); }"


def test_screenshots(visit: Callable[..., Any], served: Any, request: pytest.FixtureRequest) -> None:
    folder: Path | None = request.config.getoption("--screenshots", None)
    if folder is None:
        pytest.skip("asked for by --screenshots FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        served.beat()
        chosen = f"?learner={served.league.learners['main-exploiter'].id}" if name == "training" else ""
        page = visit(address(name, served) + chosen, None if name == "sign-in" else "read", color_scheme="light")
        settle(page)
        if name == "match":
            page.locator("[data-time]").evaluate(IN_THE_FIGHT)
        page.wait_for_timeout(700)
        Image.open(BytesIO(page.screenshot())).convert("RGB").save(folder / f"{name}.png", optimize=True)
