"""Processes of a league killed at random moments: accepted is counted, nothing twice, and every checkpoint loads."""

from pathlib import Path

import pytest
from kills.campaign import Campaign, run
from kills.fleet import WEIGHTS, Size

SMALL = Size(servers=2, roles=("main",), evaluators=1, snapshot_steps=2000)
WHOLE = Size(servers=2, roles=("main", "main_exploiter", "league_exploiter"), evaluators=2, snapshot_steps=5000)

STARTING_S = 900.0
"""Processes that start dozens of times, on a machine that does other things too."""


@pytest.mark.slow
@pytest.mark.timeout(STARTING_S)
def test_thirty_kills_lose_nothing_and_need_no_hand(tmp_path: Path) -> None:
    report = run(Campaign("postgresql", SMALL, 1, 30, 0.1, seed=3), tmp_path, print)
    assert report.verdict.broken == []
    assert sum(report.kills.values()) == 30
    assert report.kills.keys() == WEIGHTS.keys()
    assert report.verdict.matches["witness-0"] > 0


@pytest.mark.slow
@pytest.mark.timeout(STARTING_S)
@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_a_minute_of_kills_loses_nothing_and_needs_no_hand(tmp_path: Path, backend: str) -> None:
    report = run(Campaign(backend, WHOLE, 2, 100, 0.6, seed=1), tmp_path, print)
    assert report.verdict.broken == []
    assert report.verdict.matches["witness-1"] > 0
