"""Request classes, and the queue of one of them."""

import asyncio
from collections.abc import Callable
from typing import Any, get_args

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE
from refused import refused

from league.api.middleware.concurrency import QueueLimiter
from league.request_class import RequestClass, request_class
from league.settings import Settings
from league.settings.concurrency import ConcurrencyLimits

NEVER_WAIT = {"/healthz", "/readyz", "/metrics", "/api/v1/events"}
BEAT = ("POST", "/api/v1/workers/{worker_id}/heartbeat")
REGISTRATION = ("POST", "/api/v1/workers")


@ON_SQLITE
def test_every_route_has_its_documented_request_class(http: TestClient) -> None:
    routes = {
        (method.upper(), path)
        for path, methods in http.get("/openapi.json").json()["paths"].items()
        for method in methods
    }
    assert routes >= {BEAT, REGISTRATION}
    for method, path in routes:
        found = request_class(method, path)
        if path in NEVER_WAIT or (method, path) == BEAT:
            assert found is None
        elif "/checkpoints/" in path or path.endswith(("/replay", "/superiority", "/redundancy")):
            assert found == "slow"
        elif (method, path) == REGISTRATION:
            assert found == "registrations"
        else:
            assert found == ("reads" if method == "GET" else "writes")


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/healthz", "/live", "/static/style.css"])
def test_files_health_and_streams_never_wait(path: str) -> None:
    assert request_class("GET", path) is None


@pytest.mark.parametrize("path", [f"/checkpoints/{'0' * 64}", "/matches/7/recording"])
def test_downloads_and_analyses_have_a_request_class_of_their_own(path: str) -> None:
    assert request_class("GET", path) == "slow"


@pytest.mark.parametrize("path", ["/", "/players/7", "/somewhere/else", "/api/v1"])
def test_page_fragments_and_forms_have_the_class_of_their_method(path: str) -> None:
    assert request_class("GET", path) == "reads"
    assert request_class("POST", path) == "writes"


@pytest.mark.parametrize(
    "change",
    [
        {"writes_running": 0},
        {"reads_waiting": -1},
        {"wait_s": 0.0},
        {"retry_min_s": 9.0, "retry_max_s": 3.0},
        {"retry_max_s": float("inf")},
    ],
)
def test_sizes_that_cannot_be_are_refused_by_name(change: dict[str, Any]) -> None:
    (name, *_) = change
    with refused(ValueError, name):
        ConcurrencyLimits(**change)


def test_concurrency_limits_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAGUE_CONCURRENCY__WRITES_RUNNING", "7")
    limits = Settings.load().concurrency
    assert (limits.running("writes"), limits.running("reads")) == (7, ConcurrencyLimits().reads_running)
    monkeypatch.setenv("LEAGUE_CONCURRENCY__WRITES_RUNNING", "0")
    with refused("configuration", "writes_running", 0):
        Settings.load()


def test_every_class_has_its_limits() -> None:
    for each in get_args(RequestClass):
        assert ConcurrencyLimits().running(each) >= 1
        assert ConcurrencyLimits().waiting(each) >= ConcurrencyLimits().running(each)


# --- turns -----------------------------------------------------------------------------------------------------------


class Hours:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def turns(test: Callable[[QueueLimiter, Hours], Any], running: int = 1, waiting: int = 2) -> None:
    async def run() -> None:
        clock = Hours()
        await test(QueueLimiter(running, waiting, clock), clock)

    asyncio.run(run())


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_calls_get_their_turn_in_order_and_beyond_the_queue_are_refused_at_once() -> None:
    async def test(limiter: QueueLimiter, _clock: Hours) -> None:
        order: list[int] = []

        async def call(number: int) -> bool:
            entered = await limiter.enter(60.0)
            if entered:
                order.append(number)
            return entered

        assert await call(0)
        waiting = [asyncio.create_task(call(number)) for number in (1, 2)]
        await settle()
        assert len(limiter.queue) == 2
        assert not await call(3)
        for done in range(2):
            limiter.leave(0.0)
            await settle()
            assert order == list(range(done + 2))
        assert all(await asyncio.gather(*waiting))
        limiter.leave(0.0)
        assert await call(4)

    turns(test)


def test_request_that_waits_too_long_is_rejected() -> None:
    async def test(limiter: QueueLimiter, _clock: Hours) -> None:
        assert await limiter.enter(60.0)
        assert not await limiter.enter(0.001)
        assert len(limiter.queue) == 0
        limiter.leave(0.0)
        assert await limiter.enter(0.001)

    turns(test)


def test_a_call_that_is_cut_off_loses_no_turn() -> None:
    async def test(limiter: QueueLimiter, _clock: Hours) -> None:
        assert await limiter.enter(60.0)
        cut_off, called = (asyncio.create_task(limiter.enter(60.0)) for _ in range(2))
        await settle()
        limiter.leave(0.0)  # its turn has come, and it has not noticed yet
        cut_off.cancel()
        assert await called
        limiter.leave(0.0)
        gone = asyncio.create_task(limiter.enter(60.0))
        assert await gone
        still_waiting = asyncio.create_task(limiter.enter(60.0))
        await settle()
        still_waiting.cancel()
        await settle()
        assert len(limiter.queue) == 0

    turns(test)


def test_each_refused_call_is_asked_to_come_later_than_the_one_before() -> None:
    async def test(limiter: QueueLimiter, clock: Hours) -> None:
        for _ in range(200):  # calls of 2 s each, one after the other
            assert await limiter.enter(60.0)
            entered = clock.now
            clock.now += 2.0
            limiter.leave(entered)
        assert await limiter.enter(60.0)
        back = [limiter.reject() for _ in range(5)]
        assert back == pytest.approx([2.0, 4.0, 6.0, 8.0, 10.0], rel=1e-3)
        limiter.leave(clock.now - 2.0)
        assert limiter.reject() == pytest.approx(10.0, rel=1e-3)

    turns(test)
