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
