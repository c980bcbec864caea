"""Downloads in a browser: every table of every page as CSV, every chart as a picture, numbers in full."""

import csv
from collections.abc import Callable
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from browsing import LOADED, until
from PIL import Image

Visit = Callable[..., Any]
PAGES = {
    "/": (["Learners"], ["Ratings of the population"]),
    "/standings": (["Standings of mech-company"], []),
    "/players/{champion}/against/{opponent}": (["Latest matches", "Behaviour"], []),
    "/players/{champion}": (["Opponents", "Latest matches", "Behaviour"], ["Rating", "Lineage"]),
    "/payoff": (["Ratings and Nash weights"], ["Win rates"]),
    "/training": (["Opponents by branch", "Most likely opponents"], ["Return", "Win rate by branch"]),
    "/runs": (["Runs"], []),
    "/runs/1": (["Settings", "Origin"], []),
    "/matches": (["Matches"], []),
    "/workers": (["Workers"], []),
    "/events": (["The log"], []),
}
"""Tables and charts of each page, two of the charts where there are many."""

HOSTILE = ["=1+1", "+1+1", "-x", "@SUM(A1)", "\t=1", 'a "quoted", name', "two\nlines", "-2", "plain", "main@5"]
GUARDED = 5
"""So many of them, the first ones, are formulas for a spreadsheet."""


def offered(page: Any) -> dict[str, list[str]]:
    """Scroll to the end, so that all parts load; return the forms of each entry of the list."""
    page.wait_for_load_state("domcontentloaded")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    until(page, LOADED)
    page.click("[data-downloads]")
    entries = page.locator("#downloads li").all()
    return {each.evaluate("li => li.firstChild.data"): each.locator("button").all_inner_texts() for each in entries}


def take(page: Any, name: str, form: str) -> bytes:
    with page.expect_download() as started:
        page.locator("#downloads").get_by_role("button", name=f"{name} as {form}", exact=True).click()
    assert started.value.suggested_filename.endswith(f".{form.lower()}")
    return Path(started.value.path()).read_bytes()


def rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(content.decode("utf-8-sig"), newline="")))


def players(served: Any) -> dict[str, int]:
    """Return the champion, and the opponent of its newest rating match."""
    champion = served.league.champion
    with served.client() as client:
        match = client.matches(champion, kind="rating", limit=1).items[0]
    return {
        "champion": champion,
        "opponent": match.home.player_id if match.away.player_id == champion else match.away.player_id,
    }


@pytest.mark.parametrize("path", PAGES)
def test_every_table_and_chart_is_offered(path: str, visit: Visit, served: Any) -> None:
    page = visit(path.format_map(players(served)))
    tables, charts = PAGES[path]
    until(page, "count => document.querySelectorAll('main table').length >= count", len(tables))
    if charts:
        until(page, "document.querySelector('[data-drawn], .plot canvas')")
    found = offered(page)
    assert found.keys() >= {*tables, *charts}
    assert (
        len(found)
        == page.locator("main table:visible").count()
        + page.locator("main canvas:visible, main svg.descent:visible").count()
    )
    for title in tables:
        assert found[title] == ["CSV"]
        assert rows(take(page, title, "CSV"))
    for title in charts:
        picture = Image.open(BytesIO(take(page, title, "PNG"))).convert("RGB")
        assert len(picture.getcolors(2**24)) > 5
        assert all(rows(take(page, title, form)) for form in found[title] if form == "CSV")


def test_numbers_in_a_file_are_those_of_the_league_in_full(visit: Visit, served: Any) -> None:
    page = visit("/standings")
    offered(page)
    lines = rows(take(page, "Standings of mech-company", "CSV"))
    with served.client() as client:
        first = client.standings(served.league.environment, limit=1).items[0]
    assert float(lines[0]["Rating"]) == first.rating
    assert float(lines[0]["Rating 2 RD"]) == 2 * first.deviation
    assert int(lines[0]["Games"]) == first.games
    assert (lines[0].get("Player name") or lines[0]["Player"]) == first.name
    assert len(lines) == page.locator("tr[data-id]").count()


def test_the_picture_of_a_lineage_needs_no_style_sheet(visit: Visit, served: Any) -> None:
    page = visit(f"/players/{served.league.champion}")
    page.wait_for_selector("svg circle", state="attached")
    offered(page)
    source = take(page, "Lineage", "SVG").decode()
    assert 'fill="rgb(' in source
    assert "class=" not in source
    page.set_content(f"<body>{source}</body>")
    assert page.locator("svg circle").count() > 10


def test_text_is_quoted_and_no_formula_reaches_a_spreadsheet(visit: Visit) -> None:
    page = visit("/")
    own = page.locator("script[src*='downloads.js']").get_attribute("src")
    module = page.evaluate_handle("own => import(new URL('csv.js', new URL(own, location)))", own)
    written = module.evaluate(
        "(module, texts) => module.toCsv([...texts.map((text) => [text, -1.5]), [null, 0]])", HOSTILE
    )
    found = list(csv.reader(StringIO(written, newline="")))
    assert [line[0] for line in found] == [*("'" + text for text in HOSTILE[:GUARDED]), *HOSTILE[GUARDED:], ""]
    assert [line[1] for line in found] == [*["-1.5"] * len(HOSTILE), "0"]
