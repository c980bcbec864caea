"""Workers are told to call again at times that spread."""

from collections.abc import Callable

import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene

from league import wire
from league.client import LeagueClient
from league.config import Settings
from league.services.polling import next_poll_s


def test_times_spread_over_the_jitter_around_the_setting_and_repeat_with_the_chance() -> None:
    settings = Settings(next_poll_s=10.0, poll_jitter=0.3)
    rng = np.random.default_rng(1)
    polls = np.array([next_poll_s(settings, rng) for _ in range(2000)])
    assert polls.min() == pytest.approx(7.0, abs=0.1)
    assert polls.max() == pytest.approx(13.0, abs=0.1)
    assert polls.mean() == pytest.approx(10.0, abs=0.2)
    again = np.random.default_rng(1)
    assert [next_poll_s(settings, again) for _ in range(5)] == polls[:5].tolist()


def test_without_jitter_everybody_is_told_the_same() -> None:
    settings = Settings(next_poll_s=10.0, poll_jitter=0.0)
    assert {next_poll_s(settings, np.random.default_rng(seed)) for seed in range(5)} == {10.0}


@ON_SQLITE
def test_every_answer_of_a_worker_s_calls_says_when_to_call_again(serve: Callable[..., TestClient]) -> None:
    scene = Scene(LeagueClient(http=serve(next_poll_s=100.0, poll_jitter=0.1)))
    lease = wire.RatingLeases(
        kind="rating", worker_id=scene.evaluator.id, environment=scene.environment, count=2, budget=1
    )
    polls = [
        scene.trainer.next_poll_s,
        scene.client.heartbeat(scene.trainer.id).next_poll_s,
        scene.client.lease(lease).next_poll_s,
        scene.client.report(wire.ResultBatch(worker_id=scene.trainer.id, results=[])).next_poll_s,
    ]
    assert all(90.0 <= poll <= 110.0 for poll in polls)
    assert len({*polls}) == len(polls)
