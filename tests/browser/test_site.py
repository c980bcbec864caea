"""A static copy that a browser opens from disk: pages, charts, replay, downloads and links, without one request."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from browsing import until

from league.cli import main

DRAWN = {
    "index.html": "figure[data-ratings] canvas",
    "payoff.html": "#map[data-drawn]",
    "training.html": "[data-chart=return] canvas",
}


@pytest.fixture(scope="module")
def site(served: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "site"
    arguments = ["export-site", str(folder), "--home", str(served.home), "--pages", "80", "--matches", "20"]
    arguments += ["--compared", "3"]
    with ThreadPoolExecutor(1) as pool:  # the browser's event loop runs in this thread
        ended = pool.submit(main, arguments).exception()
    assert isinstance(ended, SystemExit)
    assert not ended.code
    return folder


@pytest.fixture
def page(browser: Any) -> Any:
    """A page that fails the test on an error, a failed request, or any request that leaves the disk."""
    wrong: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    page.on("console", lambda message: message.type in ("error", "warning") and wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: wrong.append(request.url))
    page.on("request", lambda request: request.url.startswith("http") and wrong.append(request.url))
    yield page
    context.close()
    assert wrong == []


def test_a_copy_is_read_from_disk(page: Any, site: Path, served: Any) -> None:
    page.goto((site / "index.html").as_uri())
    names = page.locator("nav[aria-label=Pages] a").all_inner_texts()
    assert names == ["Overview", "Standings", "Payoff", "Training", "Matches", "Events"]
    for name in names:
        page.locator("nav[aria-label=Pages]").get_by_role("link", name=name, exact=True).click()
        file = Path(unquote(urlsplit(page.url).path)).name
        page.wait_for_selector(DRAWN.get(file, "main table"))
        assert "Static copy of" in page.inner_text("footer")
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_player_of_a_copy_has_its_curve_lineage_and_downloads(page: Any, site: Path, served: Any) -> None:
    page.goto((site / "standings.html").as_uri())
    page.locator("tbody th a").first.click()
    page.wait_for_selector("[data-drawn] canvas")
    assert page.locator("svg.descent circle").count() > 10
    page.click("[data-theme-switch]")
    page.click("[data-downloads]")
    with page.expect_download() as started:
        page.locator("#downloads").get_by_role("button", name="Rating as CSV").click()
    assert Path(started.value.path()).read_text("utf-8-sig").startswith("time,high,low,value")


def test_the_heat_map_of_a_copy_opens_head_to_head_pages(page: Any, site: Path, served: Any) -> None:
    page.goto((site / "payoff.html").as_uri())
    page.wait_for_selector("#map[data-drawn]")
    pairs = page.locator("a[data-pair][href]")
    assert pairs.count() == 6
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**/players/*/against/*.html")
    page.wait_for_selector("dl.facts")
    page.get_by_role("link", name="Swap").click()
    page.wait_for_url("**/players/*/against/*.html")
    assert "Static copy of" in page.inner_text("footer")


def test_curves_and_a_replay_of_a_copy_play(page: Any, site: Path, served: Any) -> None:
    page.goto((site / "training.html").as_uri())
    page.wait_for_selector("[data-chart=return] canvas")
    page.click("[data-more] summary")
    until(page, "document.querySelector('[data-chart=head_kl] canvas')?.clientWidth > 100")
    page.locator("#view [name=log]").check()
    page.goto((site / "matches" / f"{served.league.recorded}.html").as_uri())
    page.wait_for_selector("[data-battlefield]:visible")
    page.click("[data-act=forward]")
    until(page, "document.querySelector('[data-time]').value === '1'")
