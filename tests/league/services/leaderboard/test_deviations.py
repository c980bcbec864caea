"""Deviations and the strongest predicted cycle, as pages, commands and the API show them."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene

from league import wire
from league.cli.output import tables
from league.db.engine import Database
from league.db.models import PairModelFit
from league.services.leaderboard.deviations import Deviations, PairDeviation, get_deviations
from league.services.matches import pair_records
from league.services.population.cache import PopulationCache
from league.services.ratings import pair_predictions

REPORT = {
    "held_out": [],
    "log_loss": None,
    "log_loss_of_ratings": None,
    "rms_z": None,
    "rms_z_of_ratings": None,
    "pairs": 0,
    "calibration": [],
}


@pytest.fixture
def trio(scene: Scene) -> Sequence[wire.Player]:
    """Three snapshots of equal rating."""
    return [scene.publish(step) for step in (1, 2, 3)]


def record(scene: Scene, database: Database, rows: Sequence[tuple[wire.Player, wire.Player, int, float]]) -> None:
    """Store pair records of (lower id, higher id, matches, points of the lower)."""
    columns = "low_id", "high_id", "matches", "games", "points", "wins", "draws", "losses"
    values = [(low.id, high.id, n, n, points, points, 0, n - points) for low, high, n, points in rows]
    with database.write() as session:
        rows_of = [dict(zip(columns, row, strict=True)) | {"environment": scene.environment} for row in values]
        pair_records.write(session, rows_of)


def fit_cycle(scene: Scene, database: Database, trio: Sequence[wire.Player], size: float) -> None:
    """Store a fit in which each player beats the next one; `size` is the distance of positions from the middle."""
    angles = 2.0 * np.pi * np.arange(3) / 3.0
    parameters = np.column_stack((np.zeros(3), size * np.cos(angles), size * np.sin(angles)))
    fitted = PairModelFit(
        environment=scene.environment, period_id=None, matches=1, components=1,
        players=np.array([player.id for player in trio], dtype="<i8").tobytes(),
        parameters=parameters.astype("<f8").tobytes(), effect_variance=0.0, effects=b"",
        report=REPORT, fitted_at=datetime(2030, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    with database.write() as session:
        pair_predictions.store(session, fitted)


def deviations(scene: Scene, database: Database) -> Deviations:
    with database.read() as session:
        return get_deviations(session, PopulationCache(), scene.environment)


def test_rating_misleads_where_every_pair_is_decided_between_equals(
    scene: Scene, database: Database, trio: Sequence[wire.Player]
) -> None:
    one, two, three = trio
    record(scene, database, [(one, two, 40, 40.0), (two, three, 40, 40.0), (one, three, 40, 0.0)])
    found = deviations(scene, database)
    assert found.players == {player.id for player in trio}
    assert found.find(one.id, two.id) == PairDeviation(40, 1.0, 0.5, 0.5)
    assert found.find(one.id, three.id) == PairDeviation(40, 0.0, 0.5, 0.5)
    assert found.find(three.id, one.id) == PairDeviation(40, 1.0, 0.5, 0.5)
    assert {item.id for item in scene.client.standings().items if item.rating_misleads} == found.players
    assert scene.client.player(one.id).rating_misleads
    assert scene.client.player(scene.baseline().id).rating_misleads is False
    pairs = {(pair.player.player_id, pair.opponent.player_id): pair for pair in scene.client.payoff().deviations}
    assert pairs.keys() == {(one.id, two.id), (two.id, three.id), (one.id, three.id)}
    assert (pairs[one.id, three.id].observed, pairs[one.id, three.id].by_ratings) == (0.0, 0.5)


def test_pair_is_marked_if_ratings_or_the_model_mispredict_it(
    scene: Scene, database: Database, trio: Sequence[wire.Player]
) -> None:
    one, two, three = trio
    fit_cycle(scene, database, trio, 2.0)
    rate = 1.0 / (1.0 + np.exp(-2.0 * np.sqrt(3.0)))
    record(scene, database, [(one, two, 40, 39.0), (two, three, 40, 20.0)])
    found = deviations(scene, database)
    assert found.players == {one.id, two.id}
    assert found.find(one.id, two.id) == PairDeviation(40, 0.975, 0.5, pytest.approx(rate))
    assert found.find(three.id, two.id) == PairDeviation(40, 0.5, 0.5, pytest.approx(1.0 - rate))


def test_few_games_and_games_of_learners_do_not_deviate(
    scene: Scene, database: Database, trio: Sequence[wire.Player]
) -> None:
    learner = scene.client.player(scene.learner.player_id)
    record(scene, database, [(trio[0], trio[1], 9, 9.0), (learner, trio[0], 1000, 1000.0)])
    assert deviations(scene, database) == Deviations(frozenset(), {})


@ON_SQLITE
def test_past_standings_do_not_know_whether_ratings_mislead(scene: Scene, trio: Sequence[wire.Player]) -> None:
    period = scene.client.close_period()
    assert {item.rating_misleads for item in scene.client.standings(as_of=period.id).items} == {None}
    assert {item.rating_misleads for item in scene.client.standings().items} == {False}


@ON_SQLITE
def test_marks_of_ratings_are_explained_once(scene: Scene, database: Database, trio: Sequence[wire.Player]) -> None:
    record(scene, database, [(trio[0], trio[1], 40, 40.0)])
    items = scene.client.standings().items
    marked = {item.id for item in items if "≠" in tables.rating(item)}
    assert marked == {trio[0].id, trio[1].id}
    assert sum(line.startswith("≠") for line in tables.explain_marks(items)) == 1
    assert not tables.explain_marks([scene.baseline()])


@ON_SQLITE
def test_strongest_cycle_is_named_with_predicted_and_observed_scores(
    scene: Scene, database: Database, trio: Sequence[wire.Player], http: TestClient
) -> None:
    one, two, three = trio
    fit_cycle(scene, database, trio, 2.0)
    record(scene, database, [(one, two, 40, 36.0), (one, three, 20, 4.0)])
    scene.client.close_period()
    wins = scene.client.pair_model().strongest_cycle
    assert [win.player.player_id for win in wins] == [one.id, two.id, three.id]
    assert [win.opponent.player_id for win in wins] == [two.id, three.id, one.id]
    assert [win.predicted for win in wins] == pytest.approx([1.0 / (1.0 + np.exp(-2.0 * np.sqrt(3.0)))] * 3)
    assert [win.by_ratings for win in wins] == pytest.approx([0.5] * 3)
    assert [(win.observed, win.matches) for win in wins] == [(0.9, 40), (None, 0), (0.8, 20)]
    page = http.get("/payoff").text
    assert 'id="strongest-cycle"' in page
    assert "observed: 90.0 % of 40" in page


@ON_SQLITE
def test_nearly_even_cycle_is_not_named(
    scene: Scene, database: Database, trio: Sequence[wire.Player], http: TestClient
) -> None:
    fit_cycle(scene, database, trio, 0.4)
    scene.client.close_period()
    assert not scene.client.pair_model().strongest_cycle
    assert 'id="strongest-cycle"' not in http.get("/payoff").text


@ON_SQLITE
def test_pages_mark_players_and_pairs_that_deviate(
    scene: Scene, database: Database, trio: Sequence[wire.Player], http: TestClient
) -> None:
    record(scene, database, [(trio[0], trio[1], 40, 40.0)])
    scene.client.close_period()
    assert http.get("/standings/rows").text.count("rating misleads") == 2
    assert "100.0 % of 40 matches. Ratings alone predict 50.0 %" in http.get(f"/players/{trio[0].id}").text
    assert "0.0 % of 40 matches. Ratings alone predict 50.0 %" in http.get(f"/payoff/against?player={trio[1].id}").text
    cells = http.get("/payoff/cells").json()
    assert list(cells["by_ratings"].values()) == [500]
    (cell,) = cells["by_ratings"]
    assert cells["matches"][int(cell)] == 40
