"""A worker that stops sending heartbeats is recorded once as lost, until it returns."""

from datetime import timedelta
from typing import Any

import pytest
from league_scene import Scene

from league.db.engine import Database
from league.services.workers import lost

HEARTBEAT_S = 120.0


@pytest.fixture
def look(database: Database, time: Any) -> Any:
    def record(after_s: float) -> list[str]:
        time.advance(after_s)
        with database.write() as session:
            assert lost.any_change(session, HEARTBEAT_S, time.now) or not lost.record(session, HEARTBEAT_S, time.now)
            return lost.record(session, HEARTBEAT_S, time.now)

    return record


def test_lost_workers_are_recorded_once_and_again_after_they_return(scene: Scene, look: Any) -> None:
    assert look(360.0) == []
    assert look(0.1) == ["evaluator-1", "trainer-1"]
    assert look(1000.0) == []
    scene.client.heartbeat(scene.trainer.id)
    assert look(360.0) == []
    assert look(0.1) == ["trainer-1"]
    events = scene.client.events(kind=lost.LOST).items
    assert [each.details["worker"] for each in events] == ["trainer-1", "trainer-1", "evaluator-1"]
    assert {each.actor for each in events} == {"rule"}


def test_workers_that_were_told_to_leave_or_are_quarantined_are_not_lost(scene: Scene, look: Any, time: Any) -> None:
    scene.client.command_worker(scene.trainer.id, "drain")
    scene.client.quarantine_worker(scene.evaluator.id, time.now - timedelta(0), "test")
    assert look(1000.0) == []
