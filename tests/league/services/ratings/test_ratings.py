"""What matches make of ratings, once and when they are computed again."""

from collections.abc import Callable
from typing import Any

import numpy as np
from league_history import play_periods, recomputed
from league_scene import Scene, result
from sqlalchemy import update

from arena.ratings.glicko2 import SCALE, Kind, Ratings, Results, rate_period
from league.db.engine import Database
from league.db.models import Payoff, Rating
from league.services.rating_periods.rebuild import rebuild
from league.settings import Settings


def ratings(scene: Scene) -> dict[int, tuple[float, float, float, int]]:
    return {
        player.id: (player.rating, player.deviation, player.volatility, player.games)
        for player in scene.client.players(scene.environment).items
    }


def test_training_matches_rate_only_the_learner(scene: Scene) -> None:
    scene.publish(1)
    before = ratings(scene)
    scene.train(12)
    period = scene.client.close_period()
    after = ratings(scene)
    own = scene.learner.player_id
    assert period.matches == 12
    assert after[own][0] > before[own][0]
    assert after[own][1] < before[own][1]
    assert after[own][3] == 12
    assert {player: rating for player, rating in after.items() if player != own} == {
        player: rating for player, rating in before.items() if player != own
    }


def test_rating_matches_rate_frozen_players_and_never_the_anchor(scene: Scene) -> None:
    snapshot, baseline = scene.publish(1), scene.baseline()
    before = ratings(scene)
    scene.evaluate(10, winner=snapshot.id)
    scene.client.close_period()
    after = ratings(scene)
    assert after[snapshot.id][0] > before[snapshot.id][0]
    assert after[baseline.id][:3] == before[baseline.id][:3]
    assert after[baseline.id][3] == after[snapshot.id][3] == 10
    assert after[scene.learner.player_id] == before[scene.learner.player_id]


def test_a_period_is_one_glicko_2_period_over_its_matches(scene: Scene, configure: Callable[..., Settings]) -> None:
    """The stored rating is the arithmetic's own, bit for bit."""
    baseline = scene.baseline()
    scores = [1.0, 0.0, 0.5, 1.0, 1.0]
    for score in scores:
        scene.train(1, learner_score=score)
    scene.client.close_period()
    settings = configure()
    expected = rate_period(
        Ratings(
            rating=np.array([1500.0, baseline.rating]),
            deviation=np.array([350.0, baseline.deviation]),
            volatility=np.array([0.06, 0.06]),
        ),
        Results(home=np.zeros(5, int), away=np.ones(5, int), score=np.array(scores), games=np.ones(5, int)),
        tau=settings.tau,
        kinds=[Kind.LEARNER, Kind.OBSERVED],
        deviation_floor=30.0,
        deviation_cap=350.0,
        volatility_cap=0.1,
    )
    learner = scene.client.player(scene.learner.player_id)
    assert (learner.rating, learner.deviation, learner.volatility) == (
        expected.rating[0],
        expected.deviation[0],
        expected.volatility[0],
    )


def test_a_burst_is_rated_at_its_likeliest_strength_and_rebuilt_bit_for_bit(
    scene: Scene, database: Database, configure: Callable[..., Settings]
) -> None:
    games = configure().burst_games + 30
    baseline, learner = scene.baseline(), scene.learner.player_id
    scene.train(games - 4)
    scene.train(4, learner_score=0.0)
    scene.client.close_period()
    win_rate = 1.0 - 4 / games
    most_likely = baseline.rating + SCALE * np.log(win_rate / (1.0 - win_rate))
    rated = scene.client.player(learner)
    assert 30.0 < rated.deviation < 150.0
    assert abs(rated.rating - most_likely) < 0.5 * rated.deviation
    assert recomputed(database)[0].differing == 0


def test_self_play_is_logged_but_not_rated(scene: Scene) -> None:
    before = ratings(scene)
    lease = next(lease for lease in scene.lease(count=20) if lease.branch == "self-play")
    (answer,) = scene.report(result(lease))
    assert answer.status == "accepted"
    assert scene.client.close_period().matches == 1
    assert ratings(scene) == before


def test_an_idle_learner_grows_less_certain_and_a_frozen_player_does_not(scene: Scene) -> None:
    snapshot = scene.publish(1)
    scene.train(20)
    scene.evaluate(10, winner=snapshot.id)
    scene.client.close_period()
    before = ratings(scene)
    scene.client.close_period()
    after = ratings(scene)
    own = scene.learner.player_id
    assert after[own][1] > before[own][1]
    assert after[snapshot.id] == before[snapshot.id]


def test_a_snapshot_starts_with_its_learner_s_rating_and_a_wider_deviation(scene: Scene) -> None:
    for _ in range(6):
        scene.train(40, learner_score=0.5)
        scene.client.close_period()
    learner = scene.client.player(scene.learner.player_id)
    assert learner.deviation < 80
    snapshot = scene.publish(1)
    assert (snapshot.rating, snapshot.deviation, snapshot.games) == (learner.rating, 80.0, 0)
    assert snapshot.provisional
    assert snapshot.conservative == snapshot.rating - 160


def test_rebuild_gives_the_same_ratings_bit_for_bit(scene: Scene, database: Database, time: Any) -> None:
    play_periods(scene, time)
    before = ratings(scene)
    (told,) = rebuild(database, time.now)
    assert (told.environment, told.periods, told.differing) == (scene.environment, 6, 0)
    assert told.ratings > 10
    assert ratings(scene) == before


def test_rebuild_restores_manually_changed_ratings_and_payoffs(scene: Scene, database: Database, time: Any) -> None:
    play_periods(scene, time)
    before = ratings(scene), scene.client.payoff(scene.environment)
    with database.write() as session:
        session.execute(update(Rating).values(rating=Rating.rating + 1e-9))
        session.execute(update(Payoff).values(points=0.0))
    assert ratings(scene) != before[0]
    (seen,) = recomputed(database)
    assert ratings(scene) != before[0]
    (told,) = rebuild(database, time.now, scene.environment)
    assert seen == told
    assert told.differing > told.ratings
    assert (ratings(scene), scene.client.payoff(scene.environment)) == before
    assert recomputed(database)[0].differing == 0
