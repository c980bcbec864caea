"""The API reference in a browser: every call is listed, and one is tried with a token."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect


def test_calls_are_listed_and_tried_with_a_token(visit: Callable[..., Any], served: Any) -> None:
    page = visit("/docs")
    page.wait_for_selector(".opblock")
    assert page.locator(".opblock").count() > 50
    page.click("button.authorize")
    page.fill(".auth-container input", served.tokens["read"])
    page.click(".auth-btn-wrapper button.authorize")
    page.click(".btn-done")
    page.click("#operations-health-get_current_token .opblock-summary")
    page.click(".try-out__btn")
    page.click("button.execute")
    expect(page.locator(".live-responses-table")).to_contain_text('"scope": "read"')


def test_reference_follows_the_dark_theme(visit: Callable[..., Any]) -> None:
    page = visit("/docs", color_scheme="dark")
    page.wait_for_selector(".opblock")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != "rgb(255, 255, 255)"
    assert page.locator("html.dark-mode").count() == 1
