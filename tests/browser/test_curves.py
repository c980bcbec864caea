"""Curves of a learner in a browser: more of them for who asks, and axes that can be read."""

from collections.abc import Callable
from typing import Any

import pytest
from browsing import until

from league.web.training.charts import CHARTS

Visit = Callable[..., Any]


def module(page: Any) -> Any:
    """Load the script that draws curves."""
    own = page.locator("script[src*='training.js']").get_attribute("src")
    return page.evaluate_handle("own => import(new URL('lines.js', new URL(own, location)))", own)


def drawn(page: Any) -> list[str]:
    """Keys of the charts that have a curve."""
    keys = "all => all.filter(each => each.querySelector('.plot canvas')).map(each => each.dataset.chart)"
    found: list[str] = page.locator("[data-chart]").evaluate_all(keys)
    return found


def test_more_curves_come_when_they_are_asked_for(visit: Visit) -> None:
    page = visit("/training")
    first = [chart.key for chart in CHARTS if not chart.more]
    until(page, f"document.querySelectorAll('.plot canvas').length === {len(first)}")
    assert drawn(page) == first
    summary = page.locator("[data-more] summary")
    summary.focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelector('[data-chart=head_kl] .plot canvas')")
    assert set(first) < set(drawn(page))
    summary.click()
    page.click("[data-theme-switch]")
    summary.click()
    wide = "document.querySelector('[data-chart=head_kl] .plot canvas').clientWidth"
    until(page, f"{wide} > 100 && {wide} <= document.querySelector('[data-chart=head_kl] .plot').clientWidth")


def test_curves_of_learners_are_overlaid_and_the_address_has_the_view(visit: Visit, served: Any) -> None:
    first, second = (served.league.learners[name].id for name in ("main", "main-exploiter"))
    page = visit(f"/training?learner={first}")
    page.select_option("#compare", str(second))
    page.wait_for_url(f"**compare={second}**")
    until(page, "document.querySelector('[data-chart=return] .plot canvas')")
    labels = page.locator("[data-chart=return] .legend span > span").all_inner_texts()
    assert labels == ["main", "main-exploiter"]
    assert len(page.locator("[data-chart=entropy] .legend > span").all()) == 4
    page.select_option("#x", "hours")
    page.fill("#smooth", "0.9")
    page.check("[name=log]")
    assert {"x=hours", "smooth=0.9", "log=true"} <= set(page.url.partition("?")[2].split("&"))
    page.reload()
    assert (page.input_value("#x"), page.input_value("#smooth"), page.is_checked("[name=log]")) == (
        "hours",
        "0.9",
        True,
    )
    page.click("[aria-label='Remove main-exploiter']")
    page.wait_for_url(lambda url: "compare" not in url)
    with page.expect_download() as download:
        page.click("a[download]")
    assert download.value.path().read_text().startswith("learner,step,reported_at,")


def test_smoothing_is_corrected_for_its_start_and_passes_over_gaps(visit: Visit) -> None:
    own = module(visit("/training"))
    found = own.evaluate("own => own.smoothed([1, null, 1, 3], 0.5)")
    assert found == [1, None, 1, pytest.approx(1.875 / 0.875)]
    joined = "own => own.joined([{xs: [1, 3], lines: [{values: [5, 6]}]}, {xs: [2, 3], lines: [{values: [7, 8]}]}])"
    assert own.evaluate(joined) == {"xs": [1, 2, 3], "lines": [{"values": [5, None, 6]}, {"values": [None, 7, 8]}]}


@pytest.mark.parametrize(
    ("values", "apart", "told"),
    [
        ([0, 0.25, 0.5, 0.75, 1], 0.25, ["0", "0.25", "0.5", "0.75", "1"]),
        ([0.017, 0.018, 0.019], 0.001, ["0.017", "0.018", "0.019"]),
        ([2.95e-4, 2.96e-4], 1e-6, ["2.95e-4", "2.96e-4"]),
        ([0, 7500, 15000], 7500, ["0", "7.5k", "15k"]),
        ([-5e5, 0, 1e6, 1.5e6], 5e5, ["-0.5M", "0", "1M", "1.5M"]),
        ([0], 1, ["0"]),
    ],
)
def test_labels_of_an_axis_differ_and_have_one_unit(
    values: list[float], apart: float, told: list[str], visit: Visit
) -> None:
    own = module(visit("/training"))
    assert own.evaluate("(own, [values, apart]) => own.labels(null, values, 1, 0, apart)", [values, apart]) == told
