"""Answers are tables of pandas and arrays of NumPy."""

import sys
from datetime import UTC, datetime

import pytest
from league_scene import ON_SQLITE, Scene
from refused import refused

from arena.errors import MissingPackageError
from league import wire


@ON_SQLITE
def test_page_is_a_table_with_columns_for_nested_fields(scene: Scene) -> None:
    pytest.importorskip("pandas")
    scene.train(3)
    matches = scene.client.matches()
    table = matches.to_pandas()
    assert list(table["id"]) == [match.id for match in matches.items]
    assert list(table["home.name"]) == [match.home.name for match in matches.items]


@ON_SQLITE
def test_payoff_is_an_array_and_a_table_with_names(scene: Scene) -> None:
    pytest.importorskip("pandas")
    players = [scene.publish(64), scene.publish(128)]
    scene.evaluate(8, winner=players[1].id)
    scene.client.close_period(scene.environment)
    payoff = scene.client.payoff()
    array, table = payoff.to_numpy(), payoff.to_pandas()
    assert array.shape == (len(payoff.names),) * 2
    first, second = (payoff.names.index(player.name) for player in reversed(players))
    assert table.loc["main@128", "main@64"] == array[first, second] > 0.5


def test_training_curves_are_indexed_by_step() -> None:
    pytest.importorskip("pandas")
    times = [datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 2, tzinfo=UTC)]
    curves = wire.TrainingCurves(learner_id=1, steps=[1, 2], reported_at=times, metrics={"loss": [0.5, None]}, last=2)
    table = curves.to_pandas()
    assert list(table.index) == [1, 2]
    assert table["loss"][1] == 0.5


def test_missing_pandas_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.extras.importlib.util.find_spec", lambda _name: None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused(MissingPackageError, "echelon-league[pandas]"):
        wire.Page[wire.Event](items=[], next_cursor=None).to_pandas()
