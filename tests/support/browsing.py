"""Waiting in a browser whose pages evaluate nothing: Playwright's own waiting for a condition would."""

import time
from typing import Any

PATIENCE_S = 20.0
_PAUSE_MS = 50
LOADED = "![...document.querySelectorAll('.later > .empty')].some(each => each.textContent === 'Loading')"
"""Condition that the parts of a page that are requested after it have arrived."""


def until(page: Any, condition: str, argument: Any = None) -> None:
    """Wait until a condition holds on a page, a JavaScript expression or function of the argument."""
    deadline = time.monotonic() + PATIENCE_S
    while not page.evaluate(condition, argument):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(_PAUSE_MS)
