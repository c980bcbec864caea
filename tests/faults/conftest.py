"""Leagues that are reached over a network that a test can break, and workers that remember their answers."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from distant_league import League
from kills.witness import Witness

from league.settings import Settings


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the settings of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith(("LEAGUE_", "AWS_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def postgres() -> Iterator[postgres_server.Server]:
    """A PostgreSQL that may be killed and started again."""
    with postgres_server.killable() as server:
        yield server


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., League]]:
    """Start a league; by default on SQLite, in a folder of the test's own."""
    with ExitStack() as stack:

        def start(**given: Any) -> League:
            hasty = {
                "aggregation_interval_s": 0.05,
                "aggregation_term_s": 0.5,
                "period_games": 2,
                "period_spacing_s": 0.0,
            }
            return League(Settings.load(**{"home": tmp_path, **hasty, **given}), stack)

        yield start


@pytest.fixture
def watch() -> Iterator[Callable[..., Witness]]:
    """Start a worker that reports, and remembers what it was answered."""
    witnesses: list[Witness] = []

    def start(league: League, **given: Any) -> Witness:
        witness = Witness(league.url, f"witness-{len(witnesses)}", random.Random(len(witnesses)), **given)
        witnesses.append(witness)
        witness.start()
        return witness

    yield start
    for witness in witnesses:
        witness.stop()
