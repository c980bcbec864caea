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
def census(transport):
    return transport.app.state.league.census


@pytest.fixture
def link(client, outside):
    return RetryingClient(client, clock=outside.clock, rng=random.Random(0), backoff_max_s=1.0)


def test_a_trainer_beats_less_often_as_long_as_the_league_has_many_workers(census, link):
    member = LeagueSession(link, LeagueSettings(heartbeat_s=10.0), SPEC, "0")
    assert member.register()
    spans_s = []
    for census.present in (2, 5_000, 100_000, 500):
        member.heartbeat(1, {}, [])
        spans_s.append(member.heartbeat_s)
    assert spans_s == [10.0, pytest.approx(45.0, abs=5.0), pytest.approx(108.0, abs=12.0), 10.0]


def test_an_evaluator_beats_less_often_as_long_as_the_league_has_many_workers(census, link):
    member = EvaluatorSession(link, [SPEC], name="evaluator", version="0")
    assert member.register()
    spans_s = []
    for census.present in (2, 10_000, 2):
        member.heartbeat()
        spans_s.append(member.heartbeat_s)
    assert spans_s == [HEARTBEAT_MAX_S, pytest.approx(90.0, abs=10.0), HEARTBEAT_MAX_S]


def test_a_league_that_is_away_changes_nothing(census, link, transport):
    census.present = 5_000
    member = LeagueSession(link, LeagueSettings(heartbeat_s=10.0), SPEC, "0")
    assert member.register()
    member.heartbeat(1, {}, [])
    told_s = member.heartbeat_s
    transport.down = True
    assert member.heartbeat(2, {}, []) is None
    assert member.heartbeat_s == told_s > 10.0


def test_an_older_league_does_not_say_how_often_to_beat():
    answer = wire.HeartbeatAnswer.model_validate({"command": "continue", "next_poll_s": 1.0})
    assert answer.next_heartbeat_s == 0.0
