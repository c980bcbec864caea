"""A server's clock that jumps, forwards or back, delays nothing for longer than the rules say and spoils no books."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, result

from league.db.engine import Database
from league.services.operations import integrity
from league.services.rating_periods import closing
from league.settings import Settings

Configure = Callable[..., Settings]

DAY_S = 86_400.0


@pytest.fixture
def violations(http: TestClient, database: Database, time: Any) -> Callable[[], list[integrity.Violation]]:
    store = http.app.state.league.store  # type: ignore[attr-defined]
    return lambda: integrity.check(database, store, unpublished_before=time.now - timedelta(days=400))


def test_results_of_both_sides_of_a_jump_are_rated_when_due_and_the_books_stay_right(
    scene: Scene,
    database: Database,
    configure: Configure,
    time: Any,
    violations: Callable[[], list[integrity.Violation]],
) -> None:
    settings = configure(period_games=4, period_spacing_s=10, period_age_s=60)

    def closed() -> int:
        period = closing.close_if_due(database, settings, scene.environment, time.now)
        return 0 if period is None else period.matches

    scene.train(4)
    assert closed() == 4
    time.advance(DAY_S)
    scene.train(4)
    assert closed() == 4
    scene.train(1)
    time.advance(-DAY_S)
    assert closed() == 1, "nobody waits a day for the time that its result was reported at"
    scene.train(20)
    assert closed() == 20, "nor for the time at which the last period was closed"
    scene.train(1)
    assert closed() == 0
    assert [period.number for period in scene.client.periods(limit=10).items] == [4, 3, 2, 1]
    assert violations() == []


def test_a_lease_granted_before_the_clock_was_set_back_counts(
    scene: Scene, time: Any, violations: Callable[[], list[integrity.Violation]]
) -> None:
    (lease,) = scene.opponent_leases(1)
    time.advance(-DAY_S)
    assert scene.report(result(lease))[0].status == "accepted"
    scene.client.close_period()
    assert violations() == []
    assert scene.client.player(scene.learner.player_id).games == 1


def test_after_a_jump_forwards_results_count_within_the_grace_and_later_ones_are_refused_by_name(
    scene: Scene, configure: Configure, time: Any, violations: Callable[[], list[integrity.Violation]]
) -> None:
    settings = configure()
    early, late = scene.opponent_leases(2)
    time.advance(settings.lease_expiry_s + settings.lease_grace_s)
    assert scene.report(result(early))[0].status == "accepted"
    time.advance(1.0)
    (refused,) = scene.report(result(late))
    assert refused.status == "rejected"
    assert "expired" in str(refused.detail)
    scene.train(1)
    assert violations() == []
