"""Lanes of the suite: unit tests, and integration tests, which need a server or a process of their own.

Tests on PostgreSQL or a bucket, and those of the folders below, are integration tests by themselves; a test that starts
a process has the marker `integration`, and fails without it.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FOLDERS = ("tests/browser", "tests/deploy", "tests/faults", "tests/gpu")
FIXTURES = frozenset({"drop", "in_bucket", "past_on_postgresql", "postgres", "postgres_url", "service"})
PARAMETERS = frozenset({"postgresql", "bucket", "bucket of a plain service"})
LANES = ("browser", "gpu", "slow", "integration")
PROGRAMS_OF_UNIT_TESTS = frozenset({"git", "uname"})
"""Asked by the product itself, in a few milliseconds."""

_watching = False


def mark(items: Sequence[pytest.Item]) -> None:
    """Mark the tests that are integration tests by themselves."""
    for item in items:
        if needs_a_server(item):
            item.add_marker(pytest.mark.integration)


def needs_a_server(item: pytest.Item) -> bool:
    """Whether a test's folder, fixtures or parameters say that it needs a server."""
    if item.nodeid.startswith(FOLDERS) or FIXTURES & set(getattr(item, "fixturenames", ())):
        return True
    given = getattr(item, "callspec", None)
    return given is not None and any(isinstance(value, str) and value in PARAMETERS for value in given.params.values())


def lane_of(item: pytest.Item) -> str:
    """Return the lane that a test runs in."""
    return next((lane for lane in LANES if item.get_closest_marker(lane)), "unit")


@contextmanager
def no_process(item: pytest.Item) -> Iterator[None]:
    """Refuse to start processes while a unit test runs."""
    global _watching
    _watching = lane_of(item) == "unit"
    try:
        yield
    finally:
        _watching = False


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching or event not in {"subprocess.Popen", "os.posix_spawn", "os.fork"}:
        return
    program = Path(os.fsdecode(arguments[0] or arguments[1][0])).name if arguments else "a fork of this process"
    if program not in PROGRAMS_OF_UNIT_TESTS:
        raise RuntimeError(f"a unit test starts {program}; mark it with pytest.mark.integration")


sys.addaudithook(_refuse)
