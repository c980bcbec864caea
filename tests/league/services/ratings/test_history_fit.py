"""The whole history fitted at periods' ends: what is stored is the fit, it can be computed again, and it can be off."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_history import play_periods, recomputed
from league_scene import ON_SQLITE, Scene
from refused import refused
from sqlalchemy import select

from arena.ratings.bradley_terry import NO_PARENT, RefitConfig, fit
from arena.ratings.glicko2 import Results
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Match
from league.settings import Settings

EVERY_PERIOD = RefitConfig(growth=0.0)
NEVER = RefitConfig(enabled=False)
LEARNED = 0.05
"""How near two fits come that begin elsewhere: what they learn on the way stops short of its limit."""


@pytest.fixture
def fitted(serve: Callable[..., TestClient]) -> Scene:
    return Scene(LeagueClient(http=serve(refit=EVERY_PERIOD)))


def test_ratings_after_a_refit_are_the_fit_of_all_rating_matches(fitted: Scene, database: Database, time: Any) -> None:
    play_periods(fitted, time)
    players = [player for player in fitted.client.players(fitted.environment).items if player.kind != "learner"]
    played = [player for player in players if player.games]
    places = {player.id: place for place, player in enumerate(played)}
    with database.read() as session:
        rows = session.execute(select(Match.home_id, Match.away_id, Match.score).where(Match.kind == "rating")).all()
    home, away, score = zip(*rows, strict=True)
    expected = fit(
        Results([places[p] for p in home], [places[p] for p in away], np.array(score), np.ones(len(rows), int)),  # type: ignore[arg-type]
        [player.rating if player.kind == "baseline" else 1500.0 for player in played],
        anchor=[player.kind == "baseline" for player in played],
        parent=[places.get(player.parent_id or 0, NO_PARENT) for player in played],
        config=EVERY_PERIOD,
    )
    snapshots = [place for place, player in enumerate(played) if player.kind == "snapshot"]
    assert len(snapshots) == 4
    assert [played[place].rating for place in snapshots] == pytest.approx(expected.rating[snapshots], abs=LEARNED)
    capped = np.minimum(expected.deviation[snapshots], 350.0)
    assert [played[place].deviation for place in snapshots] == pytest.approx(capped, abs=LEARNED)
    assert all(period.refitted for period in fitted.client.periods().items)


def test_a_refit_moves_neither_learners_nor_anchors(serve: Callable[..., TestClient], fitted: Scene, time: Any) -> None:
    before = fitted.baseline()
    fitted.publish(1)
    fitted.evaluate(10, winner=fitted.baseline().id)
    fitted.client.close_period()
    after = fitted.baseline()
    assert (after.rating, after.deviation) == (before.rating, before.deviation)
    assert fitted.client.player(fitted.learner.player_id).rating == 1500.0


def test_refitted_ratings_are_reproduced_bit_for_bit(fitted: Scene, database: Database, time: Any) -> None:
    play_periods(fitted, time)
    (told,) = recomputed(database)
    assert told.ratings > 20
    assert told.differing == 0


def test_a_refit_waits_until_some_player_s_games_have_grown_enough(scene: Scene, database: Database) -> None:
    """With a growth of 0.2, a seventh game of a player that had six does not call for a fit, an eighth does."""
    snapshot = scene.publish(1)
    refitted = []
    for games in (6, 0, 2, 2):
        if games:
            scene.evaluate(games, winner=snapshot.id)
        refitted.append(scene.client.close_period().refitted)
    assert refitted == [True, False, True, True]
    for games in (2, 2):
        scene.evaluate(games, winner=snapshot.id)
        refitted.append(scene.client.close_period().refitted)
    assert refitted[4:] == [False, True]
    assert recomputed(database)[0].differing == 0


def test_without_the_refit_frozen_players_are_rated_by_periods_alone(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    scene = Scene(LeagueClient(http=serve(refit=NEVER)))
    play_periods(scene, time)
    assert not any(period.refitted for period in scene.client.periods().items)
    floors = [p.deviation for p in scene.client.players(scene.environment, kind="snapshot").items]
    assert min(floors) >= 30.0
    assert recomputed(database)[0].differing == 0


def test_history_rows_name_the_rating_config_they_were_made_under(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    first, second = (Scene(LeagueClient(http=serve(tau=tau, automatic_promotion=False))) for tau in (0.5, 0.9))
    snapshot = first.publish(1)
    for scene in (first, second, first):
        scene.evaluate(8, winner=snapshot.id)
        time.advance(60)
        scene.client.close_period()
    periods = first.client.periods().items[::-1]
    assert [period.config["tau"] for period in periods] == [0.5, 0.9, 0.5]
    curve = first.client.ratings(snapshot.id).items
    assert [point.config_id for point in curve] == [period.config_id for period in periods]
    assert curve[0].config_id == curve[2].config_id != curve[1].config_id
    assert recomputed(database)[0].differing == 0


@ON_SQLITE
def test_settings_of_the_refit_come_from_the_environment_and_are_checked(
    configure: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAGUE_REFIT__GROWTH", "0.5")
    assert configure().refit.growth == 0.5
    monkeypatch.setenv("LEAGUE_REFIT__GROWTH", "-1")
    with refused("configuration", "growth", -1):
        configure()


def test_superiority_uses_the_fit_and_omits_players_without_matches(fitted: Scene, time: Any) -> None:
    play_periods(fitted, time)
    newcomer = fitted.publish(99)
    retired = fitted.client.players(fitted.environment, kind="snapshot").items[0]
    fitted.client.retire(retired.id)
    order = fitted.client.superiority(fitted.environment)
    assert order.period_id == fitted.client.periods().items[0].id
    ids = [player.player_id for player in order.players]
    assert newcomer.id not in ids
    assert retired.id not in ids
    assert order.ratings == sorted(order.ratings, reverse=True)
    for place, player_id in enumerate(ids):
        player = fitted.client.player(player_id)
        assert order.ratings[place] == pytest.approx(player.rating, abs=LEARNED)
        assert order.low[place] <= order.ratings[place] <= order.high[place]
        assert order.superiority[place][place] == 0.5
        assert all(odds >= 0.5 for odds in order.superiority[place][place:])
    assert fitted.client.superiority(fitted.environment, limit=2).players == order.players[:2]


def test_no_superiority_before_the_first_rating_match(scene: Scene) -> None:
    order = scene.client.superiority()
    assert (order.players, order.superiority, order.period_id) == ([], [], None)
