"""Workers are told to call again at times that spread."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene

from league import wire
from league.app import periodic_tasks
from league.background.worker_count import WorkerCountTask
from league.client import LeagueClient
from league.services.workers.polling import next_heartbeat_s, next_poll_s
from league.settings import Settings


def test_times_spread_over_the_jitter_around_the_setting_and_repeat_with_the_chance() -> None:
    settings = Settings(next_poll_s=10.0, poll_jitter=0.3)
    rng = np.random.default_rng(1)
    polls = np.array([next_poll_s(settings, rng) for _ in range(2000)])
    assert polls.min() == pytest.approx(7.0, abs=0.1)
    assert polls.max() == pytest.approx(13.0, abs=0.1)
    assert polls.mean() == pytest.approx(10.0, abs=0.2)
    again = np.random.default_rng(1)
    assert [next_poll_s(settings, again) for _ in range(5)] == polls[:5].tolist()


def test_without_jitter_all_workers_get_the_same_interval() -> None:
    settings = Settings(next_poll_s=10.0, poll_jitter=0.0)
    assert {next_poll_s(settings, np.random.default_rng(seed)) for seed in range(5)} == {10.0}


@ON_SQLITE
def test_every_worker_response_has_a_polling_interval(serve: Callable[..., TestClient]) -> None:
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


@pytest.mark.parametrize(("workers", "longest_s"), [(0, 0.0), (500, 5.0), (10_000, 100.0), (50_000, 120.0)])
def test_the_more_workers_there_are_the_less_often_each_is_to_beat(workers: int, longest_s: float) -> None:
    settings = Settings(heartbeats_per_s=100.0, heartbeat_s=120.0, poll_jitter=0.2)
    rng = np.random.default_rng(1)
    told = np.array([next_heartbeat_s(settings, workers, rng) for _ in range(500)])
    assert told.max() <= longest_s
    assert told.min() >= 0.8 * longest_s
    assert told.mean() == pytest.approx(0.9 * longest_s, rel=0.02)
    calm = settings.model_copy(update={"poll_jitter": 0.0})
    assert next_heartbeat_s(calm, workers, rng) == longest_s


def test_live_workers_are_counted_and_get_a_heartbeat_interval(serve: Callable[..., TestClient], time: Any) -> None:
    http = serve(heartbeats_per_s=0.1, heartbeat_s=100.0, poll_jitter=0.0)
    scene = Scene(LeagueClient(http=http))  # of two workers
    league = http.app.state.league  # type: ignore[attr-defined] - it is an application
    taker = WorkerCountTask(league.database, league.worker_count, league.settings.heartbeat_s, lambda: time.now)
    assert scene.client.heartbeat(scene.trainer.id).next_heartbeat_s == 0.0
    taker.run_once()
    assert scene.client.heartbeat(scene.trainer.id).next_heartbeat_s == 20.0
    time.advance(150.0)
    scene.client.heartbeat(scene.trainer.id)
    time.advance(60.0)
    taker.run_once()
    assert league.worker_count.present == 1  # the evaluator has not beaten for more than twice as long as it may
    assert scene.client.heartbeat(scene.trainer.id).next_heartbeat_s == 10.0


def test_an_api_process_counts_workers_by_itself(serve: Callable[..., TestClient]) -> None:
    league = serve().app.state.league  # type: ignore[attr-defined] - it is an application
    assert any(isinstance(task, WorkerCountTask) for task in periodic_tasks(league, with_background_process=True))
