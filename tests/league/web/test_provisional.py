"""Provisional ratings are marked wherever a page, a command or the API shows them."""

import re

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene

from league import wire
from league.cli.matchmaking import _tables

MARK = '<span class="visually-hidden"> provisional</span>'


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def snapshot(scene: Scene) -> wire.Player:
    """A snapshot after 6 rating matches against a baseline."""
    player = scene.publish(1)
    scene.evaluate(6, winner=player.id)
    scene.client.close_period()
    return player


def row(page: str, text: str) -> str:
    """Return the first table row with a text."""
    return next(each for each in re.findall(r"<tr.*?</tr>", page, re.DOTALL) if text in each)


def test_payoff_table_marks_the_snapshot_and_no_baseline(http: TestClient, scene: Scene, snapshot: wire.Player) -> None:
    page = http.get("/payoff").text
    assert MARK in row(page, f'data-id="{snapshot.id}"')
    assert MARK not in row(page, f'data-id="{scene.baseline().id}"')
    assert MARK in http.get(f"/payoff/against?player={snapshot.id}").text


def test_opponents_of_a_player_are_marked(http: TestClient, scene: Scene, snapshot: wire.Player) -> None:
    assert MARK in http.get(f"/players/{scene.baseline().id}/opponents").text
    assert MARK not in http.get(f"/players/{snapshot.id}/opponents").text


def test_matches_mark_the_side_that_was_provisional_then(http: TestClient, scene: Scene, snapshot: wire.Player) -> None:
    match = scene.client.matches(snapshot.id).items[0]
    assert http.get(f"/matches/{match.id}").text.count(MARK) == 1
    assert http.get(f"/matches?player={snapshot.id}").text.count(MARK) == 6


def test_opponent_distribution_marks_snapshots(scene: Scene, snapshot: wire.Player) -> None:
    preview = scene.client.preview(scene.learner.player_id)
    assert {item.player_id for item in preview.items if item.provisional} == {snapshot.id}
    *_, opponents, legend = _tables(preview, 20)
    marked = [cells[1] for cells in opponents.rows if any(cell.endswith("?") for cell in cells)]
    assert marked == [snapshot.name]
    assert legend.startswith("?: provisional")
