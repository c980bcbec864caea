"""Static copies of pages: their trees, links, scripts and parts."""

import re
from importlib.resources import files

import pytest

from league.web.site import html, links, scripts
from league.web.site.page import copy_page, resolve

ENVIRONMENT = "rps"


@pytest.mark.parametrize(
    "text",
    [
        "<p>1 &lt; 2 &amp; &#39;x&#39;</p>",
        '<a href="/?a=1&amp;b=%22" hidden>x</a><br>',
        '<svg viewbox="0 0 1 1"><path d="M0 0"></path></svg>',
        "<script>if (1 < 2 && 3) {}</script>",
        "<!doctype html><html><body></body></html>",
    ],
)
def test_a_tree_writes_what_it_was_parsed_from(text: str) -> None:
    assert html.parse(text).write() == text


def test_stray_end_tags_and_missing_ones_close_nothing_else() -> None:
    assert html.parse("<div><p>a</b></div>b").write() == "<div><p>a</p></div>b"


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("/", "/"),
        ("/?environment=rps", "/"),
        ("/?environment=other", None),
        ("/standings?offset=500&show=all", "/standings?offset=500&show=all"),
        ("/standings?sort=name", None),
        ("/training?learner=3&environment=rps", "/training?learner=3"),
        ("/players/5", "/players/5"),
        ("/players/5/against/6", "/players/5/against/6"),
        ("/players/5/against/6/curve", None),
        ("/players/../secret", None),
        ("/workers", None),
        ("/checkpoints/ab", None),
        ("https://example.org/players/5", None),
        ("//example.org/players/5", None),
        ("#main", None),
    ],
)
def test_pages_of_a_copy_are_those_of_its_environment(address: str, page: str | None) -> None:
    assert links.canonical(address, ENVIRONMENT) == page


def test_links_lead_from_folder_to_folder() -> None:
    assert links.file_of("/") == "index.html"
    assert links.file_of("/training?learner=3") == "training-learner-3.html"
    assert links.relative("/players/5", links.file_of("/")) == "../index.html"
    assert links.relative("/players/5", links.file_of("/players/6")) == "6.html"
    assert links.relative("/", links.file_of("/players/6")) == "players/6.html"


def test_addresses_that_are_left_out_have_a_kind() -> None:
    for address, kind in {
        "/matches?environment=rps&player=3": "filtered lists of matches",
        "/matches/3": "older matches",
        "/workers?environment=rps": "workers",
        "/players/1/against/2": "head-to-head pages of weaker players",
        "/nowhere": "other pages",
    }.items():
        assert links.kind_of(address) == kind


def test_scripts_of_a_copy_have_neither_imports_nor_exports() -> None:
    static = files("league.web").joinpath("static")
    sources = [each.name for each in static.iterdir() if each.name.endswith(".js") and ".min." not in each.name]
    modules = [*sources, *(f"replay/{each.name}" for each in static.joinpath("replay").iterdir())]
    for name in modules:
        plain = scripts.plain_script(name, scripts.read_static(name).decode())
        assert not re.search(r"^\s*(import|export)\b", plain, re.MULTILINE), name
        assert " as " not in "".join(re.findall(r"const \{[^}]*\} = await", plain)), name


def test_imported_scripts_come_first() -> None:
    order = scripts.with_imports("player.js")
    assert order[-1] == "player.js"
    assert order.index("times.js") < order.index("charts.js") < order.index("player.js")
    assert "ask.js" in scripts.with_imports("replay/view.js")


MODULES = ("times.js", "charts.js", "ask.js", "interval_chart.js", "player.js")
PAGES = {
    "/players/5": """<!doctype html><html><head>
<script src="/static/htmx.min.js?v=1" defer></script><script src="/static/player.js?v=2" type="module"></script>
<link rel="stylesheet" href="/static/style.css?v=3"></head><body>
<nav><a href="/">start</a><a href="/workers">workers</a></nav>
<main><form action="/"><input name="q"><button>go</button></form>
<form action="/runs/difference"><table><tr><td><label><input type="radio" name="a"></label>1</td></tr></table></form>
<div data-curve="/players/5/curve"></div>
<section hx-get="/players/5/descent" hx-trigger="revealed" hx-target="find .later"><div class="later"></div></section>
<table><tr class="more" hx-get="/rows?offset=1"><td>more</td></tr></table>
<a href="/players/6">six</a> <a href="/players/7">seven</a> <button data-opens="dialog-x">act</button>
<dialog id="dialog-x"></dialog><dialog id="downloads"></dialog><button data-theme-switch>theme</button>
</main></body></html>""",
    "/players/5/curve": '{"name": "</script><b>"}',
    "/players/5/descent": '<svg><a href="/players/6">6</a></svg>',
    "/rows?offset=1": '<tr><td>one</td></tr><tr class="more" hx-get="/rows?offset=2"></tr>',
    "/rows?offset=2": "<tr><td>two</td></tr>",
}


@pytest.fixture(scope="module")
def copied() -> str:
    page = copy_page("/players/5", PAGES.__getitem__, ENVIRONMENT, "<p>made</p>")
    modules = dict.fromkeys(MODULES, True)
    assert page.assets == {**modules, "style.css": False}
    existing = {each: links.file_of(each) for each in ("/", "/players/5", "/players/6")}
    return resolve(page.text, "/players/5", existing, ENVIRONMENT)


def test_a_copy_has_relative_links_and_none_to_pages_that_do_not_exist(copied: str) -> None:
    assert re.findall(r'(?:href|src)="([^"]*)"', copied) == [
        *(f"../static/{name}" for name in (*MODULES, "style.css")),
        "../index.html",
        "6.html",
        "6.html",
    ]
    assert "<a>seven</a>" in copied
    assert "workers" not in copied
    assert "\0" not in copied


def test_the_payoff_page_of_a_copy_links_to_the_pairs_that_have_a_page() -> None:
    page = copy_page("/payoff", lambda _: "<html><body><main></main></body></html>", ENVIRONMENT, "", [(5, 6), (6, 5)])
    assert page.addresses == ["/players/5/against/6", "/players/6/against/5"]
    existing = {each: links.file_of(each) for each in ("/payoff", "/players/5/against/6")}
    copied = resolve(page.text, "/payoff", existing, ENVIRONMENT)
    assert '<a data-pair="5,6" href="players/5/against/6.html"></a><a data-pair="6,5"></a>' in copied


def test_a_copy_has_its_parts_and_data(copied: str) -> None:
    assert copied.index("<td>one</td>") < copied.index("<td>two</td>")
    assert "hx-" not in copied
    assert '<script type="application/json" data-address="/players/5/curve">{"name": "\\u003c/script>' in copied
    assert "<html data-copied>" in copied
    assert "<footer" in copied


def test_a_copy_has_no_controls_of_a_server(copied: str) -> None:
    assert "<form" not in copied
    assert "<input" not in copied
    assert "dialog-x" not in copied
    assert 'id="downloads"' in copied
    assert "data-theme-switch" in copied
