"""For every test: shapes in annotations are checked, torch keeps to one thread, chance is seeded, no example timed."""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from zlib import crc32

import httpx2
import hypothesis
import numpy as np
import pytest
import shape_check

hypothesis.settings.register_profile("seeded", deadline=None, derandomize=True)
hypothesis.settings.register_profile("fresh", deadline=None)
shape_check.install(["arena.policies", "arena.environments", "trainer"])

_default_rng = np.random.default_rng

PATIENCE_S = 120.0
"""Of calls that say nothing else; the library's own 5 s are few on a machine that does other things too."""
for part in ("connect", "read", "write", "pool"):
    setattr(httpx2._config.DEFAULT_TIMEOUT_CONFIG, part, PATIENCE_S)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fresh", action="store_true", help="draw unseeded chance and hypothesis' examples anew")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("fresh" if config.getoption("--fresh") else "seeded")


@pytest.fixture(autouse=True)
def _checks_begin_anew() -> None:
    shape_check.begin()


@pytest.fixture(autouse=True)
def _chance_is_seeded(request: pytest.FixtureRequest) -> Iterator[None]:
    """Chance that nobody seeds, as a server's, is seeded by the test's name, so that a test has one outcome."""
    with _seeded(request.node.nodeid, request.config):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[None]:
    """Chance of what tests share is seeded by its name, whichever of them asks for it first."""
    if fixturedef.scope == "function":
        return (yield)
    with _seeded(f"{fixturedef.baseid} {fixturedef.argname} {request.param_index}", request.config):
        return (yield)


@contextmanager
def _seeded(name: str, config: pytest.Config) -> Iterator[None]:
    """Seed numpy's generators and, where it is loaded, torch's own; its state is as before afterwards."""
    torch: Any = sys.modules.get("torch")
    named = np.random.SeedSequence(None if config.getoption("--fresh") else crc32(name.encode()))
    with pytest.MonkeyPatch.context() as patch, torch.random.fork_rng(devices=[]) if torch else nullcontext():
        patch.setattr(
            np.random, "default_rng", lambda seed=None: _default_rng(named.spawn(1)[0] if seed is None else seed)
        )
        if torch:
            torch.default_generator.manual_seed(int(named.generate_state(1)[0]))
        yield
