"""For every test: shapes in annotations are checked, torch keeps to one thread, chance is seeded, no example timed.

Tests are sorted into lanes, and the end of a run shows the CPU seconds of each.
"""

import gc
import os
import random
import secrets
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from zlib import crc32

import httpx2
import hypothesis
import lanes
import numpy as np
import pytest
import shape_check
from cpu_seconds import CpuSeconds

hypothesis.settings.register_profile("seeded", deadline=None, derandomize=True)
hypothesis.settings.register_profile("fresh", deadline=None, print_blob=True)
shape_check.install(["arena.policies", "arena.environments", "trainer"])

_default_rng = np.random.default_rng

PATIENCE_S = 120.0
"""Of calls that say nothing else; the library's own 5 s are few on a machine that does other things too."""
NEW_SEED = -1
for part in ("connect", "read", "write", "pool"):
    setattr(httpx2._config.DEFAULT_TIMEOUT_CONFIG, part, PATIENCE_S)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fresh", nargs="?", type=int, const=NEW_SEED, metavar="SEED",
        help="draw numbers and hypothesis' examples from this seed, by default a new one, instead of the test's name",
    )  # fmt: skip
    parser.addoption("--strict-lanes", action="store_true", help="fail a unit test that starts a process")
    parser.addoption("--update-snapshots", action="store_true", help="make the texts that differ the new snapshots")
    parser.addoption("--sample", type=int, metavar="COUNT", help="run this many tests, drawn by the seed of --fresh")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    seed = config.option.fresh
    if seed == NEW_SEED:  # workers of pytest-xdist parse the same options, and inherit the controller's environment
        seed = config.option.fresh = int(os.environ.setdefault("PYTEST_FRESH_SEED", str(secrets.randbelow(2**32))))
    hypothesis.settings.load_profile("seeded" if seed is None else "fresh")
    hypothesis.core.global_force_seed = seed
    config.pluginmanager.register(CpuSeconds())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lanes.mark(items)


@pytest.hookimpl(specname="pytest_collection_modifyitems", trylast=True)
def pytest_leave_a_sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave a sample of the tests that the other options selected."""
    count = config.option.sample
    if count is not None and count < len(items):
        left = set(random.Random(config.option.fresh).sample(range(len(items)), count))
        config.hook.pytest_deselected(items=[item for place, item in enumerate(items) if place not in left])
        items[:] = [item for place, item in enumerate(items) if place in left]


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was imported and collected: it took a tenth of the CPU seconds of a run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    seed = config.option.fresh
    if seed is not None and exitstatus:
        terminalreporter.section("chance")
        terminalreporter.write_line(f'repeat a failed test with: make test-all ARGS="--fresh={seed} FILE::TEST"')


@pytest.fixture(autouse=True)
def _checks_begin_anew() -> None:
    shape_check.begin()


@pytest.fixture(autouse=True)
def _chance_is_seeded(request: pytest.FixtureRequest) -> Iterator[None]:
    """Chance that nobody seeds, as a server's, is seeded by the test's name, so that a test has one outcome."""
    with _seeded(request.node.nodeid, request.config):
        yield


@pytest.fixture(autouse=True)
def _unit_tests_start_no_process(request: pytest.FixtureRequest) -> Iterator[None]:
    with lanes.no_process(request.node) if request.config.option.strict_lanes else nullcontext():
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
    fresh = config.option.fresh
    named = np.random.SeedSequence(crc32(name.encode()) if fresh is None else [fresh, crc32(name.encode())])
    with pytest.MonkeyPatch.context() as patch, torch.random.fork_rng(devices=[]) if torch else nullcontext():
        patch.setattr(
            np.random, "default_rng", lambda seed=None: _default_rng(named.spawn(1)[0] if seed is None else seed)
        )
        if torch:
            torch.default_generator.manual_seed(int(named.generate_state(1)[0]))
        yield
