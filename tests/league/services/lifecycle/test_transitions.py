"""Standings change by compare-and-set, with a reason, an actor and a trace."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene
from refused import refused
from sqlalchemy import select

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Event
from league.errors import LeagueError
from league.services.lifecycle import transitions
from league.services.population import cache as population_cache
from league.services.promotion import rules as promotion_rules
from league.settings import Settings

STEPS: dict[str, dict[str, str | None]] = {
    "candidate": {"promote": "commander", "retire": "retired", "reinstate": None, "quarantine": "quarantined"},
    "commander": {"promote": None, "retire": "retired", "reinstate": None, "quarantine": "quarantined"},
    "retired": {"promote": None, "retire": None, "reinstate": "candidate", "quarantine": "quarantined"},
    "quarantined": {"promote": None, "retire": None, "reinstate": "candidate", "quarantine": None},
}
REACH = {"candidate": [], "commander": ["promote"], "retired": ["retire"], "quarantined": ["quarantine"]}


def test_the_table_of_changes_is_complete() -> None:
    assert {row.keys() == transitions.TRANSITIONS.keys() for row in STEPS.values()} == {True}


@pytest.mark.parametrize("standing", STEPS)
@pytest.mark.parametrize("change", transitions.TRANSITIONS)
def test_each_transition_follows_the_table_or_is_rejected(scene: Scene, standing: str, change: str) -> None:
    player = scene.publish(1)
    for step in REACH[standing]:
        getattr(scene.client, step)(player.id)
    target = STEPS[standing][change]
    if target is None:
        with refused("standing-conflict", standing) as refusal:
            getattr(scene.client, change)(player.id)
        assert refusal.value.status == 409
        allowed = [word for word, leads_to in STEPS[standing].items() if leads_to]
        assert refusal.value.remedy.endswith(", ".join(allowed))
        assert scene.client.player(player.id).standing == standing
    else:
        assert getattr(scene.client, change)(player.id).standing == target


def test_a_commander_gets_a_call_sign_and_keeps_it(scene: Scene) -> None:
    first, second = scene.publish(1), scene.publish(2)
    assert first.call_sign is None
    names = {scene.client.promote(player.id).call_sign for player in (first, second)}
    assert None not in names
    assert len(names) == 2
    scene.client.retire(first.id)
    scene.client.reinstate(first.id)
    assert scene.client.promote(first.id).call_sign in names


@pytest.mark.parametrize("kind", ["learner", "baseline"])
def test_learners_and_baselines_have_no_standing_to_change(scene: Scene, kind: wire.Kind) -> None:
    player = scene.client.players(scene.environment, kind=kind).items[0]
    for change in transitions.TRANSITIONS:
        with refused("standing-conflict", kind):
            getattr(scene.client, change)(player.id)
    assert scene.client.player(player.id).standing is None


@ON_SQLITE
def test_an_unknown_player_is_named(scene: Scene) -> None:
    with refused("unknown-player", 999):
        scene.client.promote(999)


@pytest.mark.holds("T12")
def test_one_of_racing_promotions_wins(serve: Callable[..., TestClient]) -> None:
    servers = [serve(), serve()]
    scene = Scene(LeagueClient(http=servers[0]))
    player = scene.publish(1)

    def promote(place: int) -> str:
        try:
            return LeagueClient(http=servers[place % 2]).promote(player.id).standing or ""
        except LeagueError as error:
            return error.type

    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(promote, range(16)))
    assert sorted(outcomes) == ["commander"] + ["standing-conflict"] * 15


def test_racing_changes_of_many_players_leave_distinct_call_signs(serve: Callable[..., TestClient]) -> None:
    servers = [serve(), serve()]
    scene = Scene(LeagueClient(http=servers[0]))
    players = [scene.publish(step, content=1) for step in range(12)]  # one hash: one call-sign before stepping aside
    with ThreadPoolExecutor(12) as pool:
        promoted = list(pool.map(lambda n: LeagueClient(http=servers[n % 2]).promote(players[n].id), range(12)))
    assert len({player.call_sign for player in promoted}) == 12


def test_every_change_leaves_a_line_with_actor_and_reason(scene: Scene, database: Database, time: Any) -> None:
    player = scene.publish(1)
    scene.client.promote(player.id, "beats everybody")
    scene.client.retire(player.id, "enough")
    with database.read() as session:
        log = session.scalars(select(Event).order_by(Event.id)).all()
    assert [(line.kind, line.actor, line.reason, line.player_id) for line in log] == [
        ("promote", "open", "beats everybody", player.id),
        ("retire", "open", "enough", player.id),
    ]
    assert log[0].details["from"] == "candidate"
    assert log[0].details["to"] == "commander"
    assert log[0].created_at == time.now


def test_promotion_rule_promotes_a_clearly_better_candidate(
    serve: Callable[..., TestClient], database: Database
) -> None:
    scene = Scene(LeagueClient(http=serve(promotion={"max_interval": 2000.0})))
    better = scene.publish(1)
    for _ in range(4):
        scene.evaluate(10, winner=better.id)
        scene.client.close_period()
    promoted = scene.client.player(better.id)
    assert promoted.standing == "commander"
    with database.read() as session:
        (line,) = session.scalars(select(Event).where(Event.kind == "promote"))
    assert line.actor == "rule"
    assert "better than the median frozen player" in line.reason


def test_the_rule_retires_beyond_capacity(serve: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAGUE_PROMOTION__CAPACITY", "1")
    monkeypatch.setenv("LEAGUE_PROMOTION__LEAST_GAMES", "2")
    scene = Scene(LeagueClient(http=serve()))
    weak, strong = scene.publish(1), scene.publish(2)
    for player in (weak, strong):
        scene.client.promote(player.id)
    for _ in range(3):
        scene.evaluate(12, winner=strong.id)
        scene.client.close_period()
    assert scene.client.player(weak.id).standing == "retired"
    assert scene.client.player(strong.id).standing == "commander"


def test_the_rule_sees_the_win_rates_of_the_payoff_table(
    scene: Scene, database: Database, configure: Callable[..., Settings]
) -> None:
    first, second = scene.publish(1), scene.publish(2)
    scene.evaluate(12, winner=second.id)
    scene.train(6, learner_score=0.25)
    scene.client.close_period()
    payoff = scene.client.payoff()
    place = {player.player_id: index for index, player in enumerate(payoff.players)}
    with database.read() as session:
        everybody = population_cache.load(session, scene.environment)
        frozen = [place for place, member in enumerate(everybody.members) if member.kind != "learner"]
        roster = promotion_rules._roster(session, configure(), everybody, frozen, champion=None)
        ids = [everybody.members[place].id for place in frozen]
        for row, one in enumerate(ids):
            columns = [column for column, other in enumerate(ids) if other != one]
            record = roster.record(row, columns)
            shown = [payoff.win_rates[place[one]][place[ids[column]]] for column in columns]
            assert record.win_rate.tolist() == pytest.approx(shown)
            assert record.games.tolist() == [payoff.counts[place[one]][place[ids[column]]] for column in columns]
    assert {first.id, second.id} < set(ids)


@ON_SQLITE
def test_the_rule_can_be_switched_off(serve: Callable[..., TestClient]) -> None:
    scene = Scene(LeagueClient(http=serve(automatic_promotion=False)))
    better = scene.publish(1)
    for _ in range(4):
        scene.evaluate(10, winner=better.id)
        scene.client.close_period()
    assert scene.client.player(better.id).standing == "candidate"


@ON_SQLITE
def test_a_reason_is_not_required(scene: Scene, http: TestClient) -> None:
    player = scene.publish(1)
    assert http.post(f"/api/v1/players/{player.id}/promote").json()["standing"] == "commander"
    assert http.post(f"/api/v1/players/{player.id}/retire", json={}).json()["standing"] == "retired"
