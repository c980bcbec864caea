"""Training, payoff, workers and events in a browser: they draw, they follow the league, and they take orders."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from league import wire

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

Visit = Callable[..., Any]

expect.set_options(timeout=20_000)  # curves ask for news every five seconds, of a machine that may be busy

CHARTS = 9

COLOURS = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) if (data[at + 3]) seen.add(data.slice(at, at + 3).join());
  return seen.size;
}"""
"""How many colours a canvas shows."""


def live(page: Any) -> Any:
    """Wait until a page follows the league."""
    page.wait_for_selector("[data-live-state=live]")
    return page


def drawn_map(page: Any) -> Any:
    """Wait until the map of payoffs is drawn; return its canvas."""
    canvas = page.locator("#map[data-drawn]")
    canvas.wait_for()
    return canvas


def test_curves_are_drawn_and_grow_by_themselves(visit: Visit, served: Any) -> None:
    learner = served.league.learners["main"]
    page = visit(f"/training?learner={learner.id}")
    plots = page.locator(".plot canvas")
    plots.nth(CHARTS - 1).wait_for()
    assert all(plots.nth(each).evaluate(COLOURS) > 2 for each in range(CHARTS))
    metrics = {"charts/episodic_return": 4321.0, "charts/SPS": 1.0}
    with served.client() as client:
        step = client.metrics(learner.id, names=["charts/SPS"]).steps[-1] + 1_000_000
        progress = wire.LearnerProgress(learner_id=learner.id, step=step, metrics=metrics, verdicts=[])
        trainer = next(each for each in client.workers().items if each.kind == "trainer")
        client.heartbeat(trainer.id, wire.Heartbeat(learners=[progress]))
    expect(page.locator("[data-chart=return] .legend")).to_contain_text("4321")
    expect(page.locator(".now")).to_contain_text(f"{step:,}")
    expect(page.locator("[data-chart=return] .plot")).to_have_attribute("aria-label", re.compile("now return 4321"))


def test_pointing_at_one_curve_reads_all_of_them(visit: Visit) -> None:
    page = visit("/training")
    page.locator(".plot canvas").nth(CHARTS - 1).wait_for()
    other = page.locator("[data-chart=entropy] .legend")
    last = other.inner_text()
    page.locator("[data-chart=kl] .u-over").hover(position={"x": 60, "y": 40})
    expect(other).not_to_have_text(last, use_inner_text=True)


def test_a_pair_is_chosen_with_the_arrow_keys_and_opens_its_page(visit: Visit) -> None:
    page = live(visit("/payoff?most=20"))
    canvas = drawn_map(page)
    assert canvas.evaluate(COLOURS) > 20
    matches = page.request.get(canvas.get_attribute("data-cells")).json()["matches"]
    pairs = [(row, column) for row in range(20) for column in range(row + 1, 20)]
    row, column = next(pair for pair, played in zip(pairs, matches, strict=True) if played)
    canvas.focus()
    for key in ["ArrowDown"] * row + ["ArrowRight"] * column:
        page.keyboard.press(key)
    readout = page.locator("#cell")
    assert re.search(r"against .*: \d+\.\d %", readout.inner_text())
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/players/\d+/against/\d+"))


WRITTEN = """const write = CanvasRenderingContext2D.prototype.fillText;
window.written = [];
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  window.written.push(String(text));
  write.call(this, text, ...place);
};"""


@pytest.mark.parametrize(("most", "numbers"), [(20, 20 * 19), (50, 0)])
def test_a_small_map_has_numbers_in_its_cells_and_names_on_both_axes(visit: Visit, most: int, numbers: int) -> None:
    page = visit(f"/payoff?most={most}")
    page.add_init_script(WRITTEN)
    page.reload()
    drawn_map(page)
    written = page.evaluate("written")
    drawings = len([each for each in written if not each.isdigit()]) // (2 * most)
    assert drawings >= 1
    assert len([each for each in written if each.isdigit()]) == numbers * drawings


FILLED = """const fill = CanvasRenderingContext2D.prototype.fillRect;
window.filled = 0;
CanvasRenderingContext2D.prototype.fillRect = function (...place) { window.filled += 1; fill.apply(this, place); };"""


def test_selecting_a_pair_repaints_its_cell_only(visit: Visit) -> None:
    """With 200 players there are 40,000 of them."""
    page = visit("/payoff?most=100")
    page.add_init_script(FILLED)
    page.reload()
    canvas = drawn_map(page)
    painted = page.evaluate("filled")
    assert painted >= 100 * 99
    picture = "canvas => canvas.toDataURL()"
    before = canvas.evaluate(picture)
    canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#cell strong")).to_have_count(1)
    assert page.evaluate("filled") == painted
    assert canvas.evaluate(picture) != before


def test_the_largest_map_stays_light(visit: Visit) -> None:
    page = visit("/sign-in")
    sizes: dict[str, int] = {}
    page.on("requestfinished", lambda request: sizes.__setitem__(request.url, request.sizes()["responseBodySize"]))
    page.goto("/payoff?most=200")
    drawn_map(page)
    assert any("/payoff/cells" in url for url in sizes)
    assert sum(sizes.values()) < 500_000


def test_a_row_is_read_as_a_table(visit: Visit) -> None:
    page = live(visit("/payoff?most=50"))
    page.locator(".players tbody button").first.click()
    expect(page.locator("#against tbody tr")).to_have_count(49)


def test_a_closed_period_is_announced_above_the_map(visit: Visit, served: Any) -> None:
    page = live(visit("/payoff?most=20"))
    drawn_map(page)
    with served.client() as client:
        client.close_period()
    page.locator("#payoff-news").wait_for()


def test_an_admin_has_a_worker_leave_and_the_log_shows_it(visit: Visit, served: Any) -> None:
    with served.client() as client:
        worker = next(each for each in client.workers().items if each.name == "rater-1")
        client.heartbeat(worker.id)
        log, page = live(visit("/events")), live(visit("/workers", "admin"))
        page.locator(".workers tr", has_text="rater-1").get_by_role("button", name="Drain").click()
        dialog = page.locator("#dialog-drain")
        expect(dialog).to_contain_text("Drain rater-1?")
        dialog.get_by_label("Reason").fill("a new version is out")
        dialog.get_by_role("button", name="Drain").click()
        log.get_by_text("a new version is out").wait_for()
        expect(page.locator(".workers tr", has_text="rater-1")).to_contain_text("draining")
        assert client.heartbeat(worker.id).command == "drain"
        client.command_worker(worker.id, "continue")


def test_a_worker_is_found_by_its_name(visit: Visit) -> None:
    page = live(visit("/workers"))
    lines = page.locator(".workers tbody tr")
    assert lines.count() > 1
    page.fill("#q", "RATER-1")
    with page.expect_navigation():
        page.press("#q", "Enter")
    assert lines.locator("th").all_inner_texts() == ["rater-1"]


def test_readers_are_offered_no_orders(visit: Visit) -> None:
    page = live(visit("/workers"))
    assert page.locator("[data-opens]").count() == 0
