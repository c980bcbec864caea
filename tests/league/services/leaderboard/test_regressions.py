"""The alarm about main learners that lose to snapshots which they used to beat."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result, seen_from_home

from league import wire
from league.background.analysis import AnalysisTask
from league.cli import connection, main
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import UnknownEnvironmentError
from league.services.leaderboard import regressions
from league.services.rating_periods import queries as period_queries
from league.settings import Settings

Look = Callable[[], None]


@pytest.fixture
def look(database: Database, configure: Callable[..., Settings], time: Any) -> Look:
    """Close a period and let the server look."""
    lookout = AnalysisTask(database, configure(), lambda: time.now)
    return lookout.run_once


def play(scene: Scene, opponent: wire.Player, matches: int, share: float) -> None:
    """Let the learner win this share of matches against one opponent, evenly spread, and rate them."""
    lease = next(
        lease
        for _ in range(200)
        for lease in scene.lease(20, budget=matches)
        if opponent.id in (lease.home.player_id, lease.away.player_id)
    )
    wins = [int((number + 1) * share) - int(number * share) for number in range(matches)]
    scene.report(*(result(lease, number, seen_from_home(lease, won)) for number, won in enumerate(wins)))
    scene.client.close_period()


def kinds(scene: Scene) -> list[str]:
    found = [event for event in scene.client.events().items if event.kind in ("regression", "recovery")]
    return [event.kind for event in found]


def test_regression_of_a_main_raises_one_alarm(scene: Scene, look: Look, time: Any, http: TestClient) -> None:
    old = scene.publish(1)
    play(scene, old, 60, share=0.8)
    look()
    assert scene.client.regressions().items == []
    assert 'league_regressions{environment="rps"} 0.0' in http.get("/metrics").text
    play(scene, old, 60, share=0.2)
    look()
    (alarm,) = scene.client.regressions("rps").items
    assert (alarm.learner.player_id, alarm.opponent.player_id) == (scene.learner.player_id, old.id)
    assert (alarm.earlier.matches, alarm.earlier.score) == (60, 0.8)
    assert (alarm.recent.matches, alarm.recent.score) == (60, 0.2)
    assert alarm.earlier.low > 0.5 > alarm.recent.high
    assert alarm.since == time.now
    assert 'league_regressions{environment="rps"} 1.0' in http.get("/metrics").text
    event = scene.client.events(kind="regression").items[0]
    assert event.player_id == scene.learner.player_id
    assert event.reason.startswith(f"against {old.name}: 0.80 [")
    play(scene, old, 2, share=0.0)
    look()
    assert kinds(scene) == ["regression"]


def test_the_alarm_ends_when_the_learner_beats_it_again(scene: Scene, look: Look) -> None:
    old = scene.publish(1)
    for share in (0.8, 0.2):
        play(scene, old, 60, share)
    look()
    play(scene, old, 200, share=0.9)
    look()
    assert scene.client.regressions().items == []
    assert kinds(scene) == ["recovery", "regression"]


def test_alarm_persists_while_the_learner_keeps_losing(scene: Scene, look: Look) -> None:
    """Most of the older half is of the bad times by then, so that there is no fall to be seen any more."""
    old = scene.publish(1)
    for share in (0.8, 0.2):
        play(scene, old, 60, share)
    look()
    play(scene, old, 400, share=0.4)
    look()
    assert kinds(scene) == ["regression"]
    play(scene, old, 400, share=0.6)
    look()
    assert scene.client.regressions().items == []
    assert kinds(scene) == ["recovery", "regression"]


def test_the_alarm_ends_when_the_snapshot_is_out_of_play(scene: Scene, look: Look) -> None:
    old = scene.publish(1)
    for share in (0.8, 0.2):
        play(scene, old, 60, share)
    look()
    scene.client.retire(old.id)
    scene.client.close_period()
    look()
    assert kinds(scene) == ["recovery", "regression"]
    assert scene.client.events(kind="recovery").items[0].reason == f"{old.name} is no longer active"


@pytest.mark.parametrize("shares", [(0.55, 0.45), (0.8, 0.5), (0.3, 0.1)])
def test_noise_evenness_and_old_weakness_raise_none(scene: Scene, look: Look, shares: tuple[float, float]) -> None:
    old = scene.publish(1)
    for share in shares:
        play(scene, old, 60, share)
    look()
    assert kinds(scene) == []


@ON_SQLITE
def test_of_two_servers_one_raises_it(
    scene: Scene, database: Database, configure: Callable[..., Settings], time: Any
) -> None:
    old = scene.publish(1)
    for share in (0.8, 0.2):
        play(scene, old, 60, share)
    for lookout in [AnalysisTask(database, configure(), lambda: time.now) for _ in range(2)]:
        lookout.run_once()
        lookout.run_once()
    assert kinds(scene) == ["regression"]


@ON_SQLITE
def test_the_command_lists_alarms(
    scene: Scene, look: Look, http: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "LeagueClient", lambda _url, token, timeout_s: LeagueClient(http=http, token=token))

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["player", "regressions", *arguments])
        assert not ended.value.code
        return capsys.readouterr().out

    assert "no regressions" in run()
    old = scene.publish(1)
    for share in (0.8, 0.2):
        play(scene, old, 60, share)
    look()
    assert f"{old.name}" in run()
    assert "0.80 [" in run("--environment", "rps")
    assert json.loads(run("--json")) == scene.client.regressions().model_dump(mode="json")
    with pytest.raises(UnknownEnvironmentError):
        scene.client.regressions("chess")


def test_an_environment_that_cannot_be_looked_at_does_not_delay_the_others(
    scene: Scene, database: Database, configure: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Scene(scene.client, "zebra", "zebra-1")
    looked = list[str]()

    def look(_database: Database, _settings: Any, environment: str, _now: datetime) -> None:
        looked.append(environment)
        if environment == scene.environment:
            raise ValueError("no games")

    monkeypatch.setattr(regressions, "update_alarms", look)
    monkeypatch.setattr(period_queries, "newest", lambda *_: SimpleNamespace(id=1))
    lookout = AnalysisTask(database, configure(), lambda: datetime.now(UTC), lambda: 0.0)
    lookout.run_once()
    assert looked == [scene.environment, "zebra"]
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert line.getMessage().startswith("analysing rating periods of rps failed (ValueError: no games)")
