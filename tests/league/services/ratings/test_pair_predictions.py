"""Pair model in the league: fits between periods, predictions of populations, and their report."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from league_history import play_periods
from league_scene import Scene
from pair_fits import NOW, store_fit

from arena.ratings.bradley_terry_config import RefitConfig
from arena.ratings.glicko2 import SCALE, Results, expected_score
from league.background.pair_models import PairModelTask
from league.db.engine import Database
from league.services.population.cache import Population, PopulationCache
from league.services.ratings import pair_predictions
from league.services.ratings.history_fit import History
from league.services.ratings.pair_predictions import FitInput, calibration, log_loss
from league.settings import Settings


@pytest.fixture
def task(database: Database) -> PairModelTask:
    times = iter(NOW + timedelta(hours=hour) for hour in range(10))
    return PairModelTask(database, Settings(), lambda: next(times))


def population(scene: Scene, database: Database) -> Population:
    with database.read() as session:
        return PopulationCache().get(session, scene.environment)


def test_without_a_fit_glicko_predicts(scene: Scene, database: Database, time: Any) -> None:
    play_periods(scene, time, number=1)
    assert scene.client.pair_model().period_id is None
    found = population(scene, database)
    pair = np.array([1]), np.array([2])
    assert found.expected(*pair) == pytest.approx(expected_score(found.ratings, *pair))


def test_a_fit_follows_a_rating_period(scene: Scene, task: PairModelTask, time: Any) -> None:
    play_periods(scene, time, number=2)
    task.run_once()
    model = scene.client.pair_model()
    assert model.period_id == scene.client.periods().items[0].id
    assert model.fitted_at == NOW
    assert sum(each.games for each in model.calibration) > 0
    assert model.log_loss is not None


def test_a_fit_is_repeated_only_after_enough_matches(scene: Scene, task: PairModelTask, time: Any) -> None:
    play_periods(scene, time, number=1)
    task.run_once()
    task.run_once()
    assert scene.client.pair_model().fitted_at == NOW
    play_periods(scene, time, number=2)
    task.run_once()
    assert scene.client.pair_model().fitted_at == NOW + timedelta(hours=1)


def test_cyclic_components_change_predictions(scene: Scene, database: Database) -> None:
    one, other = scene.publish(1), scene.publish(2)
    store_fit(database, {one.id: [0.5, 1.0, 0.0], other.id: [0.0, 0.0, 2.0]})
    found = population(scene, database)
    pair = np.array([found.index(one.id)]), np.array([found.index(other.id)])
    assert found.expected(*pair) == pytest.approx(1.0 / (1.0 + np.exp(-2.5)))
    matrix = found.expected_matrix(np.concatenate(pair))
    assert matrix + matrix.T == pytest.approx(np.ones((2, 2)))


def test_new_snapshots_inherit_the_position_of_their_learner(scene: Scene, database: Database) -> None:
    old, rival = scene.publish(1), scene.publish(2)
    new = scene.publish(3)
    store_fit(database, {old.id: [0.0, 1.0, 0.0], rival.id: [0.2, 0.0, 1.0]})
    found = population(scene, database)
    ancestor, own, other = (found.index(each.id) for each in (rival, new, old))
    lead = 0.2 + (found.ratings.rating[own] - found.ratings.rating[ancestor]) / SCALE - 1.0
    assert found.expected(np.array([own]), np.array([other])) == pytest.approx(1.0 / (1.0 + np.exp(-lead)))


def test_players_outside_of_the_fit_are_predicted_by_glicko(scene: Scene, database: Database) -> None:
    one = scene.publish(1)
    store_fit(database, {one.id: [3.0, 0.0, 0.0]})
    found = population(scene, database)
    baseline = next(index for index, member in enumerate(found.members) if member.kind == "baseline")
    pair = np.array([found.index(one.id)]), np.array([baseline])
    assert found.expected(*pair) == pytest.approx(expected_score(found.ratings, *pair))


def test_the_record_of_a_pair_changes_its_prediction(scene: Scene, database: Database) -> None:
    one, other = scene.publish(1), scene.publish(2)
    rows = {other.id: [0.0, 0.0, 0.0], one.id: [0.5, 0.0, 0.0]}
    store_fit(database, rows, variance=8.0 / np.pi, effects=[(0, 1, -1.5, 0.0)])  # seen from row 0, which is `other`
    found = population(scene, database)
    pair = np.array([found.index(one.id)]), np.array([found.index(other.id)])
    assert found.expected(*pair) == pytest.approx(1.0 / (1.0 + np.exp(-2.0)))
    assert found.expected(*pair[::-1]) == pytest.approx(1.0 / (1.0 + np.exp(2.0)))
    alone = found.expected_matrix(np.concatenate(pair))[0, 1]
    assert alone == pytest.approx(1.0 / (1.0 + np.exp(-0.5 / np.sqrt(2.0))))


def test_players_of_a_league_with_a_cycle_get_ratings_of_a_round_robin() -> None:
    rng, players = np.random.default_rng(5), 30
    u, v = rng.normal(0.0, 1.5, (2, players))
    home, away = np.triu_indices(players, 1)
    chance = 1.0 / (1.0 + np.exp(v[home] * u[away] - u[home] * v[away]))
    results = Results(home, away, rng.binomial(20, chance) / 20, np.full(home.size, 20))
    history = History(
        ids=tuple(range(11, 11 + players)), results=results, start=np.full(players, 1500.0),
        deviation=np.full(players, 50.0), anchor=np.arange(players) == 0, parent=np.full(players, -1),
    )  # fmt: skip
    fitted = pair_predictions.fit(FitInput("duel", None, 1, history), RefitConfig(), NOW)
    ratings = fitted.report["ratings"]
    assert sorted(each["player_id"] for each in ratings) == list(history.ids)
    assert ratings == sorted(ratings, key=lambda each: -each["rating"])
    assert next(each for each in ratings if each["player_id"] == 11) == {
        "player_id": 11,
        "rating": pytest.approx(1500.0),
        "deviation": 0.0,
    }


def test_log_loss_is_a_mean_over_games() -> None:
    found = log_loss(np.array([0.5, 0.9]), np.array([1.0, 9.0]), np.array([2.0, 10.0]))
    assert found == pytest.approx(-(2 * np.log(0.5) + 9 * np.log(0.9) + np.log(0.1)) / 12)
    assert log_loss(np.empty(0), np.empty(0), np.empty(0)) is None


def test_calibration_weights_pairs_by_their_games() -> None:
    bins = calibration(np.array([0.52, 0.58, 1.0]), np.array([0.4, 0.8, 0.9]), np.array([10.0, 30.0, 5.0]))
    assert bins == [
        {"predicted": pytest.approx(0.565), "observed": pytest.approx(0.7), "games": 40},
        {"predicted": 1.0, "observed": pytest.approx(0.9), "games": 5},
    ]
