"""How often workers beat: as they are set, unless the league has too many of them."""

import random

import pytest

import league.background.worker_count
from arena.environments import make
from league import wire
from trainer.config.schema import LeagueSettings
from trainer.evaluation.session import HEARTBEAT_MAX_S, EvaluatorSession
from trainer.league_client.retrying_client import RetryingClient
from trainer.league_client.session import LeagueSession

SPEC = make("rps", num_envs=1).spec


@pytest.fixture(autouse=True)
def _no_count(monkeypatch):
    """Have no league count its workers: a test says how many there are."""
    monkeypatch.setattr(league.background.worker_count, "EVERY_S", 3600.0)


@pytest.fixture
def worker_count(transport):
    return transport.app.state.league.worker_count


@pytest.fixture
def retrying_client(client, outside):
    return RetryingClient(client, clock=outside.clock, rng=random.Random(0), backoff_max_s=1.0)


def test_trainer_sends_heartbeats_less_often_if_the_league_has_many_workers(worker_count, retrying_client):
    member = LeagueSession(retrying_client, LeagueSettings(heartbeat_s=10.0), SPEC, "0")
    assert member.register()
    spans_s = []
    for worker_count.present in (2, 5_000, 100_000, 500):
        member.heartbeat(1, {}, [])
        spans_s.append(member.heartbeat_s)
    assert spans_s == [10.0, pytest.approx(45.0, abs=5.0), pytest.approx(108.0, abs=12.0), 10.0]


def test_evaluator_sends_heartbeats_less_often_if_the_league_has_many_workers(worker_count, retrying_client):
    member = EvaluatorSession(retrying_client, [SPEC], name="evaluator", version="0")
    assert member.register()
    spans_s = []
    for worker_count.present in (2, 10_000, 2):
        member.heartbeat()
        spans_s.append(member.heartbeat_s)
    assert spans_s == [HEARTBEAT_MAX_S, pytest.approx(90.0, abs=10.0), HEARTBEAT_MAX_S]


def test_unreachable_league_does_not_change_the_heartbeat_interval(worker_count, retrying_client, transport):
    worker_count.present = 5_000
    member = LeagueSession(retrying_client, LeagueSettings(heartbeat_s=10.0), SPEC, "0")
    assert member.register()
    member.heartbeat(1, {}, [])
    told_s = member.heartbeat_s
    transport.down = True
    assert member.heartbeat(2, {}, []) is None
    assert member.heartbeat_s == told_s > 10.0


def test_heartbeat_interval_is_optional_in_answers():
    answer = wire.HeartbeatAnswer.model_validate({"command": "continue", "next_poll_s": 1.0})
    assert answer.next_heartbeat_s == 0.0
