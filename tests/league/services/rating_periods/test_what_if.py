"""Another rule over the same log: shown beside what is, or made the league's as a new version."""

from collections.abc import Callable
from typing import Any

import pytest
from league_history import play_periods, recomputed
from league_scene import ON_SQLITE, Scene
from refused import refused

from league.db.engine import Database
from league.services.rating_periods import what_if
from league.settings import Settings

Configure = Callable[..., Settings]
APPLY = {"actor": "somebody", "reason": "to see"}


def everything(scene: Scene) -> tuple[object, ...]:
    client = scene.client
    return client.standings(scene.environment), client.periods().items, client.payoff(scene.environment)


def test_dry_run_of_the_current_config_changes_nothing(
    scene: Scene, database: Database, configure: Configure, time: Any
) -> None:
    play_periods(scene, time)
    before = everything(scene)
    proposal = what_if.propose(database, configure(), scene.environment, {})
    outcome = what_if.compare(database, scene.environment, proposal)
    assert everything(scene) == before
    assert outcome.present == outcome.proposed
    assert all(line.present == line.proposed for line in outcome.items)
    table = scene.client.standings(scene.environment).items
    assert [(line.player_id, line.present.rank) for line in outcome.items] == [(row.id, row.rank) for row in table]


@pytest.mark.parametrize(
    "changes",
    [{"tau": 1.2}, {"deviation_cap": 60.0}, {"deviation_floor": 100.0}, {"refit": {"enabled": False}},
     {"burst_games": 5}, {"period_games": 40}],
)  # fmt: skip
def test_proposed_ratings_equal_the_applied_ones(
    scene: Scene, database: Database, configure: Configure, time: Any, changes: dict[str, Any]
) -> None:
    play_periods(scene, time)
    proposal = what_if.propose(database, configure(), scene.environment, changes)
    told = what_if.compare(database, scene.environment, proposal)
    assert any(line.present != line.proposed for line in told.items)
    what_if.apply(database, scene.environment, proposal, **APPLY, now=time.now)
    for line in told.items:
        player = scene.client.player(line.player_id)
        assert (player.rating, player.deviation, player.games) == (
            line.proposed.rating,
            line.proposed.deviation,
            line.proposed.games,
        )
    assert recomputed(database)[0].differing == 0


def test_new_rating_version_keeps_the_old_one_as_history(
    scene: Scene, database: Database, configure: Configure, time: Any
) -> None:
    players = play_periods(scene, time)
    old = scene.client.periods().items
    table = scene.client.standings(scene.environment, as_of=old[0].id).items
    proposal = what_if.propose(database, configure(), scene.environment, {"tau": 1.0, "period_games": 10})
    what_if.apply(database, scene.environment, proposal, **APPLY, now=time.now)

    new = scene.client.periods().items
    assert {period.version for period in new} == {2}
    assert scene.client.periods(version=1).items == old
    assert [period.number for period in new] == list(range(6 + len(new), 6, -1))
    assert sum(period.matches for period in new) == sum(period.matches for period in old)
    assert {period.config["tau"] for period in new} == {1.0}
    assert scene.client.standings(scene.environment, as_of=old[0].id).items == table
    assert scene.client.standings(scene.environment, as_of=new[0].id).items != table
    assert {point.config_id for point in scene.client.ratings(players[0].id).items} == {new[0].config_id}
    assert {match.period_id for match in scene.client.matches(players[0].id).items} <= {period.id for period in new}

    scene.evaluate(8, winner=players[0].id)
    closed = scene.client.close_period()
    assert (closed.version, closed.number, closed.config["tau"]) == (2, new[0].number + 1, 0.5)
    (told,) = recomputed(database)
    assert (told.differing, told.periods) == (0, len(old) + len(new) + 1)


def test_period_closed_during_a_rebuild_belongs_to_the_new_version(
    scene: Scene, database: Database, configure: Configure, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    players = play_periods(scene, time)
    proposal = what_if.propose(database, configure(), scene.environment, {"tau": 1.0})
    compute, calls = what_if._rerate, []

    def disturbed(*arguments: Any) -> Any:
        outcome = compute(*arguments)
        calls.append(outcome)
        if len(calls) == 1:
            scene.evaluate(8, winner=players[0].id)
            scene.client.close_period()
        return outcome

    monkeypatch.setattr(what_if, "_rerate", disturbed)
    what_if.apply(database, scene.environment, proposal, **APPLY, now=time.now)
    assert len(calls) == 2
    new = scene.client.periods().items
    assert len(new) == 7
    assert {period.version for period in new} == {2}
    assert recomputed(database)[0].differing == 0


def test_period_ends_when_active_players_have_played_enough_games(
    scene: Scene, database: Database, configure: Configure, time: Any
) -> None:
    scene.train(45)
    scene.client.close_period()
    proposal = what_if.propose(database, configure(), scene.environment, {"period_games": 20})
    assert what_if.compare(database, scene.environment, proposal).proposed.periods == 3


@ON_SQLITE
@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"tua": 0.3}, ("tua", "tau")),
        (
            {"rating": {"tau": 0.3}},
            ("[rating]", "tau"),
        ),
        ({"tau": 9.0}, ("tau = 9.0", 2)),
        ({"refit": {"grwth": 1.0}}, ("refit.grwth", "refit.growth")),
        ({"refit": {"growth": -1.0}}, ("growth", -1.0)),
        ({"refit": 3}, ("refit",)),
        ({"period_games": 0}, ("period_games = 0",)),
        ({"deviation_floor": 400.0}, ("LEAGUE_DEVIATION_FLOOR=400", "LEAGUE_DEVIATION_CAP=350")),
    ],
)
def test_invalid_rating_config_is_rejected(
    scene: Scene, database: Database, configure: Configure, changes: dict[str, Any], values: tuple[object, ...]
) -> None:
    with refused("configuration", *values):
        what_if.propose(database, configure(), scene.environment, changes)


@ON_SQLITE
def test_comparison_without_a_closed_period_is_rejected(scene: Scene, database: Database, configure: Configure) -> None:
    proposal = what_if.propose(database, configure(), scene.environment, {"tau": 1.0})
    with refused("invalid-request", "rps"):
        what_if.compare(database, scene.environment, proposal)
