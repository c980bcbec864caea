"""For every test: shapes in annotations are checked, torch keeps to one thread, chance is seeded, no example timed."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from zlib import crc32

import hypothesis
import numpy as np
import pytest
import shape_check

hypothesis.settings.register_profile("seeded", deadline=None, derandomize=True)
hypothesis.settings.register_profile("fresh", deadline=None)
shape_check.install(["arena.policies", "arena.environments", "trainer"])

_default_rng = np.random.default_rng


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fresh", action="store_true", help="draw servers' chance and hypothesis' examples anew")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("fresh" if config.getoption("--fresh") else "seeded")


@pytest.fixture(autouse=True)
def _checks_begin_anew() -> None:
    shape_check.begin()


@pytest.fixture(autouse=True)
def _chance_is_seeded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generators that nobody seeds, as a server's, are seeded by the test's name, so that a test has one outcome."""
    if request.config.getoption("--fresh"):
        return
    named = np.random.SeedSequence(crc32(request.node.nodeid.encode()))
    monkeypatch.setattr(
        np.random, "default_rng", lambda seed=None: _default_rng(named.spawn(1)[0] if seed is None else seed)
    )
