"""Snapshots that another one, which is no weaker, scores like: found, listed, retired by a person or by rule."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene
from refused import assert_names
from sqlalchemy import insert

from league import wire
from league.cli import connection, main
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Payoff
from league.services.promotion import behaviour_profiles
from league.services.promotion.behaviour_profiles import RecentBehaviour

Serve = Callable[..., TestClient]
GAMES = 2000
FEW_NEEDED = {"promotion": {"least_games": 0, "capacity": 20}}


@pytest.fixture
def scored(serve: Serve, database: Database) -> Callable[..., tuple[Scene, list[wire.Player]]]:
    """A league of seven snapshots; the first two score alike against the five others, which differ."""

    def make(steps: Sequence[int] = range(7), **settings: Any) -> tuple[Scene, list[wire.Player]]:
        scene = Scene(LeagueClient(http=serve(**FEW_NEEDED | settings)))
        players = [scene.publish(step) for step in steps]
        rates = [[0.3, 0.6, 0.5, 0.8, 0.2], [0.3, 0.6, 0.5, 0.8, 0.2]]
        rows = [
            _record(player, other, rate)
            for player, row in zip(players, rates, strict=False)
            for other, rate in zip(players[2:], row, strict=True)
        ]
        rows += [
            _record(one, other, 0.1 + 0.2 * place)
            for place, one in enumerate(players[2:])
            for other in players[3 + place :]
        ]
        with database.write() as session:
            session.execute(insert(Payoff), rows)
        return scene, players

    return make


def _record(one: wire.Player, other: wire.Player, rate: float) -> dict[str, Any]:
    won = rate * GAMES
    return {
        "low_id": one.id,
        "high_id": other.id,
        "environment": "rps",
        "matches": GAMES,
        "games": float(GAMES),
        "points": won,
        "wins": won,
        "draws": 0.0,
        "losses": GAMES - won,
    }


def test_redundant_player_is_reported_with_its_confidence(scored: Any) -> None:
    scene, players = scored()
    (found,) = scene.client.redundancies().items
    assert {found.player.player_id, found.representative.player_id} == {players[0].id, players[1].id}
    assert (found.environment, found.standing, found.opponents) == ("rps", "candidate", 5)
    assert 0.0 <= found.distance <= found.bound <= 0.1
    assert scene.client.redundancies("rps").items == [found]


@pytest.mark.parametrize("settings", [{"redundancy_distance": 1e-6}, {"redundancy_opponents": 6}])
def test_how_alike_and_over_how_many_opponents_is_configured(scored: Any, settings: dict[str, Any]) -> None:
    scene, _ = scored(**settings)
    assert scene.client.redundancies().items == []


@pytest.fixture
def play_in_style(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[int, float]], None]:
    """Let players have played in their style for long, by two measures."""

    def play(styles: dict[int, float]) -> None:
        sums = np.array([[[GAMES, GAMES * style, GAMES * style**2]] * 2 for style in styles.values()])
        rows = {player: row for row, player in enumerate(styles)}
        recent = RecentBehaviour(rows, ["range_m", "zone_share"], sums.transpose(2, 0, 1))
        monkeypatch.setattr(behaviour_profiles, "of_environment", lambda *_: recent)

    return play


def test_player_with_other_behaviour_is_not_redundant(scored: Any, play_in_style: Callable[..., None]) -> None:
    scene, players = scored()
    play_in_style({player.id: float(place) for place, player in enumerate(players)})
    assert scene.client.redundancies().items == []


def test_similar_players_are_listed_with_their_distance(scored: Any, play_in_style: Callable[..., None]) -> None:
    scene, players = scored(retire_redundant=True)
    (before,) = scene.client.redundancies().items
    assert before.behaviour is None
    play_in_style({player.id: float(max(place, 1)) for place, player in enumerate(players)})
    (found,) = scene.client.redundancies().items
    assert found.model_copy(update={"behaviour": None}) == before
    assert found.behaviour is not None
    assert (found.behaviour.player, found.behaviour.measures) == (found.representative, 2)
    assert found.behaviour.distance <= found.behaviour.bound <= 0.25
    scene.client.close_period()
    reason = scene.client.events(kind="retire").items[0].reason
    assert "scores like it" in reason
    assert "plays like it, within 0.00 sd over 2 measures" in reason


def test_how_alike_in_play_is_configured(scored: Any, play_in_style: Callable[..., None]) -> None:
    scene, players = scored(redundancy_behaviour=3.0)
    play_in_style({player.id: float(place) for place, player in enumerate(players)})
    (found,) = scene.client.redundancies().items
    assert found.behaviour is not None
    assert found.behaviour.bound > 0.25


@ON_SQLITE
def test_redundancy_command_prints_the_deciding_evidence(
    scored: Any,
    play_in_style: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scene, players = scored()
    monkeypatch.setattr(connection, "LeagueClient", lambda _url, token, timeout_s: scene.client)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["player", "retire-redundant", *arguments])
        assert not ended.value.code
        return capsys.readouterr().out

    assert "at most" not in run("--dry-run").splitlines()[1]
    play_in_style({player.id: float(max(place, 1)) for place, player in enumerate(players)})
    assert "at most 0.00" in run("--dry-run").splitlines()[1]
    run()
    assert scene.client.events(kind="retire").items[0].reason.endswith("plays like it")


def test_the_champion_stays(scored: Any) -> None:
    scene, _ = scored()
    (found,) = scene.client.redundancies().items
    scene.client.set_champion(found.player.player_id, expected=None)
    assert scene.client.redundancies().items == []


def test_the_newest_snapshot_of_a_learner_stays(scored: Any) -> None:
    scene, players = scored(steps=(0, 9, 1, 2, 3, 4, 5))
    assert scene.client.redundancies().items == []
    newer = scene.publish(10)
    (found,) = scene.client.redundancies().items
    assert found.player.player_id == players[1].id
    scene.client.retire(newer.id, expected="candidate")
    assert scene.client.redundancies().items == []


def test_players_with_few_games_stay(scored: Any) -> None:
    scene, _ = scored(promotion={"least_games": 1})
    assert scene.client.redundancies().items == []


@pytest.mark.parametrize(("switched_on", "retired"), [(True, 1), (False, 0)])
def test_the_rule_retires_them_after_a_period_where_it_is_switched_on(
    scored: Any, switched_on: bool, retired: int
) -> None:
    scene, _ = scored(retire_redundant=switched_on)
    expected = scene.client.redundancies().items
    scene.client.close_period()
    gone = scene.client.players(standing="retired").items
    assert [player.id for player in gone] == [each.player.player_id for each in expected[:retired]]
    if retired:
        assert f"{expected[0].representative.name} scores like it" in scene.client.events(kind="retire").items[0].reason


@ON_SQLITE
def test_the_command_retires_them_unless_it_is_to_leave_them(
    scored: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, _ = scored()
    monkeypatch.setattr(connection, "LeagueClient", lambda _url, token, timeout_s: scene.client)

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["player", "retire-redundant", *arguments])
        assert not ended.value.code
        return capsys.readouterr().out

    (found,) = scene.client.redundancies().items
    assert json.loads(run("--dry-run", "--json"))["items"] == [found.model_dump(mode="json")]
    assert_names(run("--dry-run"), "--dry-run")
    assert scene.client.players(standing="retired").items == []
    assert "1 retired" in run()
    assert [player.id for player in scene.client.players(standing="retired").items] == [found.player.player_id]
    assert "no redundant snapshots" in run()


@ON_SQLITE
def test_redundancy_command_skips_players_changed_concurrently(
    scored: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, players = scored()
    (found,) = scene.client.redundancies().items
    pair = (found.player.player_id, found.representative.player_id)
    changed = next(player for player in players if player.id not in pair)
    scene.client.quarantine(changed.id)
    stale = found.model_copy(update={"player": wire.PlayerName(player_id=changed.id, name=changed.name)})
    page = wire.Page[wire.Redundancy](items=[stale, found], next_cursor=None)
    monkeypatch.setattr(scene.client, "redundancies", lambda _environment: page)
    monkeypatch.setattr(connection, "LeagueClient", lambda _url, token, timeout_s: scene.client)
    with pytest.raises(SystemExit) as ended:
        main(["player", "retire-redundant"])
    told = capsys.readouterr()
    assert ended.value.code == 1
    assert "1 retired" in told.out
    assert f"not retired: standing conflict for player {changed.id}" in told.err
    assert scene.client.player(found.player.player_id).standing == "retired"
