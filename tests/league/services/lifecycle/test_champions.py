"""The alias `champion`: one commander of each environment holds it, handed over by compare-and-set, history kept."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene
from refused import refused
from sqlalchemy import select

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Event
from league.errors import (
    InvalidRequestError,
    LeagueError,
    UnknownChampionError,
)


def champion_id(scene: Scene) -> int | None:
    try:
        return scene.client.champion(scene.environment).player.id
    except UnknownChampionError:
        return None


def test_a_league_begins_without_a_champion(scene: Scene) -> None:
    with refused("unknown-champion", "rps", "PLAYER", "--champion"):
        scene.client.champion()
    assert scene.client.champions().items == []


def test_candidate_that_becomes_champion_gets_a_call_sign(scene: Scene) -> None:
    player = scene.publish(1)
    champion = scene.client.set_champion(player.id, "beats everybody", expected=None)
    assert champion == scene.client.champion("rps")
    assert (champion.number, champion.actor, champion.reason) == (1, "open", "beats everybody")
    assert champion.player == scene.client.player(player.id).model_copy(update={"rating_misleads": None})
    assert champion.player.standing == "commander"
    assert champion.player.call_sign


def test_champion_history_records_actor_and_reason(scene: Scene, database: Database) -> None:
    first, second = scene.publish(1), scene.publish(2)
    scene.client.set_champion(first.id, "first", expected=None)
    scene.client.set_champion(second.id, "better", expected=first.id)
    scene.client.quarantine(second.id, "under suspicion")
    history = scene.client.champions("rps").items
    assert [(change.number, change.player and change.player.player_id, change.reason) for change in history] == [
        (3, None, "quarantine: under suspicion"),
        (2, second.id, "better"),
        (1, first.id, "first"),
    ]
    page = scene.client.champions(limit=1)
    assert scene.client.champions(limit=5, cursor=page.next_cursor).items == history[1:]
    with database.read() as session:
        log = session.scalars(select(Event).where(Event.kind == "champion").order_by(Event.id)).all()
    assert [(line.player_id, line.details) for line in log] == [
        (first.id, {"from": None, "to": first.id}),
        (second.id, {"from": first.id, "to": second.id}),
        (second.id, {"from": second.id, "to": None}),
    ]


@pytest.mark.parametrize("change", ["retire", "quarantine"])
def test_a_champion_out_of_play_is_champion_no_longer(scene: Scene, change: str) -> None:
    champion, other = scene.publish(1), scene.publish(2)
    scene.client.set_champion(champion.id, expected=None)
    getattr(scene.client, change)(other.id)
    assert champion_id(scene) == champion.id
    getattr(scene.client, change)(champion.id)
    with refused("unknown-champion", "2030-01-01T00:00:00Z"):
        scene.client.champion()


def test_each_environment_has_its_own(league: LeagueClient) -> None:
    scenes = [Scene(league, name, f"{name}-1") for name in ("rps", "recall")]
    players = [scene.publish(1, content=place) for place, scene in enumerate(scenes)]
    for player in players:
        league.set_champion(player.id, expected=None)
    assert [champion_id(scene) for scene in scenes] == [player.id for player in players]
    with refused("invalid-request", "recall", "rps"):
        league.champion()
    for call in (league.champion, league.champions):
        with refused("unknown-environment", "recall", "rps"):
            call("chess")


def test_promotion_fails_if_the_expected_champion_changed(scene: Scene) -> None:
    first, second, third = (scene.publish(step) for step in range(3))
    scene.client.set_champion(first.id, expected=None)
    for expected, told in ((None, "none"), (third.id, third.id)):
        with refused("champion-conflict", first.id, told):
            scene.client.set_champion(second.id, expected=expected)
    assert scene.client.player(second.id).standing == "candidate"  # nothing of a refused call stays
    scene.client.set_champion(second.id, expected=first.id)
    with refused("champion-conflict", second.id):
        scene.client.set_champion(second.id, expected=second.id)
    assert champion_id(scene) == second.id


def test_ineligible_player_cannot_be_champion(scene: Scene) -> None:
    retired = scene.publish(1)
    scene.client.retire(retired.id)
    for player_id, value in (
        (retired.id, "retired"),
        (scene.learner.player_id, "learner"),
        (scene.baseline().id, "baseline"),
    ):
        with refused("standing-conflict", value):
            scene.client.set_champion(player_id, expected=None)
    with refused("unknown-player", 999):
        scene.client.set_champion(999, expected=None)
    assert champion_id(scene) is None


def test_one_of_racing_champion_promotions_wins(
    serve: Callable[..., TestClient],
) -> None:
    servers = [serve(), serve()]
    scene = Scene(LeagueClient(http=servers[0]))
    players = [scene.publish(step) for step in range(12)]

    def crown(place: int) -> wire.Champion | LeagueError:
        try:
            return LeagueClient(http=servers[place % 2]).set_champion(players[place].id, expected=None)
        except LeagueError as error:
            return error

    with ThreadPoolExecutor(12) as pool:
        outcomes = list(pool.map(crown, range(12)))
    (champion,) = (outcome for outcome in outcomes if isinstance(outcome, wire.Champion))
    losers = [outcome for outcome in outcomes if isinstance(outcome, LeagueError)]
    assert {error.status for error in losers} == {409}
    assert all(f"player {champion.player.id} " in error.rule for error in losers)
    assert champion_id(scene) == champion.player.id
    assert [player.id for player in scene.client.players(standing="commander").items] == [champion.player.id]
    assert len(scene.client.champions().items) == 1


@ON_SQLITE
def test_champion_promotion_requires_the_expected_champion(scene: Scene, http: TestClient) -> None:
    answer = http.post("/api/v1/champion", json={"player_id": scene.publish(1).id})
    assert (answer.status_code, answer.json()["type"]) == (422, InvalidRequestError.type)
    assert "expected" in answer.json()["detail"]
    assert champion_id(scene) is None


# --- by rule ---------------------------------------------------------------------------------------------------------


def test_succession_rule_promotes_the_best_commander(serve: Callable[..., TestClient]) -> None:
    scene = Scene(LeagueClient(http=serve(promotion={"max_interval": 2000.0})))
    better = scene.publish(1)
    for _ in range(4):
        scene.evaluate(10, winner=better.id)
        scene.client.close_period()
    champion = scene.client.champion()
    assert (champion.player.id, champion.actor) == (better.id, "rule")
    assert "there was no champion" in champion.reason


def _outplay_champion(scene: Scene) -> tuple[int, int]:
    weak, strong = scene.publish(1), scene.publish(2)
    scene.client.set_champion(weak.id, expected=None)
    scene.client.promote(strong.id)
    for _ in range(4):
        scene.evaluate(16, winner=strong.id)
        scene.client.close_period()
    return weak.id, strong.id


def test_clearly_better_commander_gets_a_gate_against_the_champion(serve: Callable[..., TestClient]) -> None:
    scene = Scene(LeagueClient(http=serve(promotion={"least_games": 2, "max_interval": 2000.0})))
    weak, strong = _outplay_champion(scene)
    (gate,) = scene.client.gates().items
    assert (gate.candidate.player_id, gate.champion.player_id, gate.actor) == (strong, weak, "rule")
    assert champion_id(scene) == weak


def test_without_gates_a_clearly_better_commander_succeeds_by_its_rating(serve: Callable[..., TestClient]) -> None:
    rules = {"least_games": 2, "max_interval": 2000.0, "gate": "off"}
    scene = Scene(LeagueClient(http=serve(promotion=rules)))
    weak, strong = _outplay_champion(scene)
    follower, first = scene.client.champions().items
    assert first.player is not None
    assert follower.player is not None
    assert (first.player.player_id, follower.player.player_id) == (weak, strong)
    assert follower.actor == "rule"
    assert "P(better than the champion" in follower.reason


@ON_SQLITE
def test_the_rule_can_be_switched_off(serve: Callable[..., TestClient]) -> None:
    scene = Scene(LeagueClient(http=serve(automatic_promotion=False)))
    better = scene.publish(1)
    scene.client.promote(better.id)
    for _ in range(4):
        scene.evaluate(10, winner=better.id)
        scene.client.close_period()
    assert champion_id(scene) is None


def test_a_change_from_another_standing_than_the_expected_is_refused(scene: Scene) -> None:
    player = scene.publish(1)
    with refused("standing-conflict", "candidate", "commander"):
        scene.client.retire(player.id, expected="commander")
    assert scene.client.player(player.id).standing == "candidate"
    assert scene.client.retire(player.id, expected="candidate").standing == "retired"
