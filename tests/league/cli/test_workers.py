"""`league worker`, against a server."""

import json
from datetime import UTC, datetime

import pytest
from league_command import Run
from league_scene import Scene, result
from refused import assert_names

from league import wire
from league.cli import connection
from league.cli.output import tables


def test_worker_list_shows_suspicions(online: Run, scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1, budget=30)
    scene.report(*(result(lease, sequence, score=7.0) for sequence in range(30)))
    rows = {line.split()[0]: line for line in online("worker", "list").out.splitlines()}
    assert "suspect refusals: 1, expected 0.05 (30 results" in rows["trainer-1"]
    assert "suspect" not in rows["evaluator-1"]
    listed = json.loads(online("worker", "list", "--json").out)["items"]
    assert {worker["name"] for worker in listed} == {"trainer-1", "evaluator-1"}


def test_a_worker_is_quarantined_by_name_and_reinstated(online: Run, scene: Scene) -> None:
    outcome = online("worker", "quarantine", "trainer-1", "--since", "2030-01-01T00:00:00Z", "--reason", "broken build")
    assert outcome.code == 0
    assert outcome.out.startswith("trainer-1: results since ")
    quarantine = scene.client.heartbeat(scene.trainer.id).quarantine
    assert quarantine is not None
    assert (quarantine.since, quarantine.reason) == (datetime(2030, 1, 1, tzinfo=UTC), "broken build")
    assert f"quarantined since {tables.moment(quarantine.since)}" in online("worker", "list").out
    assert online("worker", "reinstate", "trainer-1", "--restore").out == "trainer-1: all its results count\n"
    assert scene.client.heartbeat(scene.trainer.id).quarantine is None
    again = online("worker", "reinstate", "trainer-1")
    assert "not quarantined" in again.one_line_error


def test_worker_commands_drain_and_resume(online: Run, scene: Scene) -> None:
    told = online("worker", "command", "trainer-1", "drain", "--reason", "the machine is needed")
    assert_names(told.out, "trainer-1", "drain")
    assert scene.client.heartbeat(scene.trainer.id).command == "drain"
    (event,) = scene.client.events(kind="drain-worker").items
    assert event.reason == "the machine is needed"
    assert json.loads(online("worker", "command", "trainer-1", "continue", "--json").out)["command"] == "continue"
    assert scene.client.heartbeat(scene.trainer.id).command == "continue"
    assert online("worker", "command", "trainer-1", "rest").code == 2


def test_a_time_without_a_zone_is_this_machine_s() -> None:
    assert connection.moment("2030-01-31T12:00") == datetime(2030, 1, 31, 12).astimezone()


@pytest.mark.parametrize("since", ["yesterday", "2030-13-01"])
def test_invalid_time_is_bad_usage(online: Run, scene: Scene, since: str) -> None:
    outcome = online("worker", "quarantine", "trainer-1", "--since", since, "--reason", "x")
    assert outcome.code == 2
    assert since in outcome.err


def test_a_worker_that_is_not_clear_is_asked_for(online: Run, scene: Scene) -> None:
    twin = wire.WorkerCreate(name="trainer-1", kind="evaluator", version="1", signatures=["rps-1"])
    other = scene.client.register_worker(twin)
    ambiguous = online("worker", "reinstate", "trainer-1").one_line_error
    assert other.id in ambiguous
    assert scene.trainer.id in ambiguous
    assert "not quarantined" in online("worker", "reinstate", other.id).one_line_error
    assert "league worker list" in online("worker", "reinstate", "nobody").one_line_error
