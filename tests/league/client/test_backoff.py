"""A client comes back when a busy server asked it to, never all clients at one moment, and not for ever."""

import io
import random
from collections.abc import Callable, Iterator

import httpx2
import pytest
from refused import refused

from league import wire
from league.client import LeagueClient
from league.client.backoff import RetryGate
from league.client.operation import Call
from league.errors import BusyError, DatabaseUnavailableError, LeagueError

BUSY = BusyError("for POST /api/v1/leases", "2 calls run already", "send it again in 4 s")
LEASES = wire.RatingLeases(kind="rating", worker_id="w", environment="rps", count=2, budget=1)
GRANTED = {"items": [], "next_poll_s": 1.0}
BEATEN = {"command": "continue", "next_poll_s": 1.0}


class Hours:
    """Time that passes while somebody sleeps, and only then."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def refusal(error: LeagueError = BUSY, status: int | None = None, **headers: str) -> httpx2.Response:
    return httpx2.Response(status or error.status, json=error.problem(), headers={"Retry-After": "4"} | headers)


def caller(
    hours: Hours, answers: Iterator[httpx2.Response], limit_s: float = 30.0, seed: int = 0
) -> tuple[LeagueClient, list[httpx2.Request]]:
    """A client of a server that gives these answers, with what reached it."""
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        request.read()
        seen.append(request)
        return next(answers)

    http = httpx2.Client(transport=httpx2.MockTransport(answer), base_url="http://league")
    patience = RetryGate(limit_s, lambda: hours.now, hours.sleep, random.Random(seed))
    return LeagueClient(http=http, patience=patience), seen


def test_a_busy_server_is_called_again_when_it_asked_and_a_little_later() -> None:
    hours = Hours()
    client, seen = caller(hours, iter([refusal(), refusal(), httpx2.Response(200, json=GRANTED)]))
    assert client.lease(LEASES).next_poll_s == 1.0
    assert len(seen) == 3
    assert len({request.content for request in seen}) == 1
    assert all(4.0 <= pause <= 6.0 for pause in hours.pauses)
    assert hours.pauses[0] != hours.pauses[1]


def test_a_server_that_asks_to_come_back_at_once_is_not_called_for_ever() -> None:
    hours = Hours()
    client, seen = caller(hours, iter([refusal(**{"Retry-After": "0"})] * 1000))
    with pytest.raises(BusyError):
        client.lease(LEASES)
    assert 20 <= len(seen) <= 30
    assert hours.now <= 130.0


def test_retry_after_is_jittered_between_clients() -> None:
    pauses = []
    for seed in range(20):
        hours = Hours()
        client, _ = caller(hours, iter([refusal(), httpx2.Response(200, json=GRANTED)]), seed=seed)
        client.lease(LEASES)
        pauses += hours.pauses
    assert max(pauses) - min(pauses) > 1.0
    assert len(set(pauses)) == 20


def test_patience_ends_before_a_wait_that_would_be_too_long() -> None:
    hours = Hours()
    client, seen = caller(hours, iter([refusal() for _ in range(9)]), limit_s=10.0)
    with refused("busy", 4) as error:
        client.lease(LEASES)
    assert hours.now <= 110.0
    assert 1 <= len(hours.pauses) <= 2
    assert len(seen) == len(hours.pauses) + 1
    assert 4.0 <= (error.value.retry_after_s or 0) <= 6.0


def test_without_patience_nothing_sleeps_and_calls_before_the_time_stay_here() -> None:
    hours = Hours()
    client, seen = caller(hours, iter([refusal(), httpx2.Response(200, json=GRANTED)]), limit_s=0.0)
    for _ in range(5):
        with pytest.raises(BusyError):
            client.lease(LEASES)
    assert (len(seen), hours.pauses) == (1, [])
    hours.now += 6.1
    assert client.lease(LEASES).items == []
    assert len(seen) == 2


def test_other_lanes_are_called_meanwhile() -> None:
    hours = Hours()
    client, _ = caller(hours, iter([refusal(), httpx2.Response(200, json=BEATEN)]), limit_s=0.0)
    with pytest.raises(BusyError):
        client.lease(LEASES)
    assert client.heartbeat("w").command == "continue"


def test_a_refused_upload_is_sent_again_from_its_start() -> None:
    hours = Hours()
    client, seen = caller(hours, iter([refusal(), httpx2.Response(200, json=GRANTED)]))
    client._send(Call("PUT", "/api/v1/checkpoints/x", content=io.BytesIO(b"weights")))
    assert [request.content for request in seen] == [b"weights", b"weights"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda: refusal(DatabaseUnavailableError("/", "gone", "wait")),  # something may have been done
        lambda: httpx2.Response(503, json=BUSY.problem()),  # it does not say when
        lambda: refusal(**{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    ],
)
def test_errors_without_retry_after_are_not_retried(answer: Callable[[], httpx2.Response]) -> None:
    hours = Hours()
    client, _ = caller(hours, iter([answer()]))
    with pytest.raises(LeagueError):
        client.lease(LEASES)
    assert hours.pauses == []


def test_too_many_requests_are_waited_out_as_well() -> None:
    hours = Hours()
    slower = LeagueError("for this token", "too many calls", "slow down")
    client, _ = caller(hours, iter([refusal(slower, 429), httpx2.Response(200, json=GRANTED)]))
    client.lease(LEASES)
    assert len(hours.pauses) == 1
