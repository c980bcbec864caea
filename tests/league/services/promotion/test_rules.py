"""Promotion rules in the league: predicted scores decide who is superior, and who is known to lose."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene
from pair_fits import store_fit
from refused import assert_names

from league import wire
from league.client import LeagueClient
from league.db.engine import Database

ANY_GAMES = {"least_games": 0, "least_pair_games": 0.0, "max_interval": 2000.0, "gate": "off"}


@pytest.fixture
def league_of(serve: Callable[..., TestClient]) -> Callable[..., tuple[Scene, list[wire.Player]]]:
    """A league of four snapshots with equal ratings, three of them commanders."""

    def make(**settings: Any) -> tuple[Scene, list[wire.Player]]:
        scene = Scene(LeagueClient(http=serve(promotion=ANY_GAMES | settings)))
        players = [scene.publish(step) for step in range(4)]
        for player in players[:3]:
            scene.client.promote(player.id)
        return scene, players

    return make


def last_reason(scene: Scene, player: wire.Player) -> str:
    return scene.client.events(kind="promote", player=player.id).items[0].reason


def test_candidate_predicted_to_beat_the_commanders_is_promoted(league_of: Any, database: Database) -> None:
    scene, players = league_of()
    scene.client.close_period()
    assert scene.client.player(players[3].id).standing == "candidate"
    rows = {player.id: [0.0, 0.0, 1.0] for player in players[:3]}
    store_fit(database, rows | {players[3].id: [0.0, 4.0, 0.0]})
    scene.client.close_period()
    assert scene.client.player(players[3].id).standing == "commander"
    assert_names(last_reason(scene, players[3]), "commanders", 0.98, "3 of 20")


def test_prediction_stands_in_for_the_record_of_a_pair_without_games(league_of: Any, database: Database) -> None:
    """The candidate is better than the commanders on average, but predicted to score 0.38 against the first."""
    scene, players = league_of(capacity=3, superiority=0.6)
    positions = zip(players, ([0.0, 0.0, -3.5], [0.0, 0.0, 3.0], [0.0, 0.0, 3.0], [3.0, 1.0, 0.0]), strict=True)
    store_fit(database, {player.id: row for player, row in positions})
    scene.client.close_period()
    candidate = scene.client.player(players[3].id)
    assert candidate.standing == "candidate"
    assert candidate.promotion_status is not None
    assert_names(candidate.promotion_status, 0.38, 0.45)


def test_new_commander_replaces_one_that_a_mixture_of_the_others_makes_superfluous(
    league_of: Any, database: Database
) -> None:
    """The candidate is even with the first commander and beats the others, so these have no Nash weight."""
    scene, players = league_of(capacity=3, superiority=0.6)
    positions = zip(players, ([0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 4.0, 0.0]), strict=True)
    store_fit(database, {player.id: row for player, row in positions})
    scene.client.close_period()
    standings = [scene.client.player(player.id).standing for player in players]
    assert standings == ["commander", "retired", "commander", "commander"]


def test_record_of_a_pair_does_not_count_twice(league_of: Any, database: Database) -> None:
    """The effect of the first pair is its record, which the rule adds itself: without it, the candidate is even."""
    scene, players = league_of(capacity=3, superiority=0.6)
    positions = zip(players, ([0.0, 0.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 3.0], [0.0, 1.0, 0.0]), strict=True)
    store_fit(database, {player.id: row for player, row in positions}, variance=0.1, effects=[(0, 3, 0.6, 0.01)])
    scene.client.close_period()
    assert scene.client.player(players[3].id).standing == "commander"
