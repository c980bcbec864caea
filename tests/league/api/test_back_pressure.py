"""A server with more to do than it can, over a real socket: it says so at once, and workers stay attached."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, result
from live_server import listening
from refused import refused

from league import web, wire
from league.api.metrics import Metrics
from league.api.middleware.concurrency import ConcurrencyMiddleware
from league.client import LeagueClient, make_retry_gate
from league.services.matchmaking.leases import LeaseService
from league.settings.concurrency import ConcurrencyLimits

MEDIA_TYPE = "application/problem+json"


class Gate:
    """Holds up granting: so many calls have come to it, and go on once it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Semaphore(0)
        self.opened = threading.Event()
        grant = LeaseService.grant

        def held_up(*arguments: Any) -> Any:
            self.reached.release()
            assert self.opened.wait(60)
            return grant(*arguments)

        monkeypatch.setattr(LeaseService, "grant", held_up)


@pytest.fixture
def address(serve: Callable[..., TestClient]) -> Iterator[str]:
    with listening(serve(concurrency={"writes_running": 1, "writes_waiting": 1, "wait_s": 60.0}).app) as url:
        yield url


def request(scene: Scene) -> wire.TrainingLeases:
    return wire.TrainingLeases(
        kind="training", worker_id=scene.trainer.id, player_id=scene.learner.player_id, count=4, budget=1
    )


def test_heartbeats_go_through_while_leases_are_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with LeagueClient(address, patience=make_retry_gate(0.0)) as client, ThreadPoolExecutor(2) as pool:
        scene = Scene(client)
        (lease,) = scene.opponent_leases(1)
        gate = Gate(monkeypatch)
        running = pool.submit(client.lease, request(scene))
        assert gate.reached.acquire(timeout=60)
        waiting = pool.submit(client.lease, request(scene))
        waiting_shown = 'league_calls_waiting{request_class="writes"} 1.0'
        while waiting_shown not in httpx2.get(f"{address}/metrics").text:
            threading.Event().wait(0.01)

        body = request(scene).model_dump()
        for _ in range(3):
            refusal = httpx2.post(f"{address}/api/v1/leases", json=body)
            assert (refusal.status_code, refusal.headers["content-type"]) == (503, MEDIA_TYPE)
            assert refusal.json()["type"] == "busy"
            assert int(refusal.headers["retry-after"]) >= 1
            assert client.heartbeat(scene.trainer.id).command == "continue"
        with refused("busy"):
            client.lease(request(scene))

        gate.opened.set()
        assert len(running.result().items) == len(waiting.result().items) == 4
        with LeagueClient(address) as another:
            (answer,) = another.report(wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease)])).items
        assert answer.status == "accepted"
        figures = httpx2.get(f"{address}/metrics").text
        assert 'league_calls_refused_total{request_class="writes"} 4.0' in figures
        assert 'league_calls_refused_total{request_class="reads"}' not in figures
        assert 'league_calls_waiting{request_class="writes"} 0.0' in figures


def test_under_load_every_call_is_answered_or_refused_and_none_is_lost(address: str) -> None:
    callers, calls = 12, 12
    with LeagueClient(address) as client:
        scene = Scene(client)
        body = request(scene).model_dump()

        def ask(_number: int) -> tuple[Counter[int], int]:
            statuses: Counter[int] = Counter()
            granted = 0
            with httpx2.Client(base_url=f"{address}/api/v1", timeout=60) as http:
                for _ in range(calls):
                    answer = http.post("/leases", json=body)
                    statuses[answer.status_code] += 1
                    granted += len(answer.json().get("items", ()))
                    beat = http.post(f"/workers/{scene.trainer.id}/heartbeat")
                    assert beat.status_code == 200, beat.text
            return statuses, granted

        with ThreadPoolExecutor(callers) as pool:
            told = list(pool.map(ask, range(callers)))
        statuses = sum((each for each, _ in told), Counter[int]())
        assert set(statuses) == {200, 503}
        assert statuses.total() == callers * calls
        assert sum(granted for _, granted in told) == 4 * statuses[200]
        assert len(client.lease(request(scene)).items) == 4


def test_a_refusal_repeats_with_the_chance_it_is_given() -> None:
    async def never_reached(*_: Any) -> None:
        raise AssertionError

    def told(seed: int) -> list[str]:
        """What callers are told who find the class full."""
        limits = ConcurrencyLimits(writes_waiting=0, retry_min_s=30.0)
        rng = np.random.default_rng(seed)
        door = ConcurrencyMiddleware(never_reached, limits, Metrics(), lambda: 0.0, rng, web.refusal)
        for _ in range(limits.writes_running):
            assert asyncio.run(door._limiters["writes"].enter(1.0))
        http = TestClient(door)
        return [http.post("/api/v1/leases").headers["retry-after"] for _ in range(8)]

    assert told(1) == told(1) != told(2)
    assert all(30 <= int(seconds) <= 45 for seconds in told(1))
