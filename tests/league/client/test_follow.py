"""A follower of events misses none, and gives up only after minutes without a server."""

import asyncio
from collections.abc import Iterator

import httpx2
import pytest
from league_scene import Scene
from live_server import listening
from refused import refused
from starlette.testclient import TestClient

from league.client import AsyncLeagueClient, LeagueClient
from league.client.event_reader import GIVE_UP_S, LONGEST_PAUSE_S, EventReader
from league.errors import LeagueUnreachable

BODY = (
    'data: {"id":7,"kind":"promote","environment":"rps","player_id":3,"actor":"open","reason":"","details":{},'
    '"created_at":"2030-01-01T00:00:00Z"}\n\n'
)
AWAY = LeagueUnreachable("http://league", "no response", "start it")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("league.client.connection.time.sleep", found.append)
    return found


def mocked(answers: Iterator[httpx2.Response | Exception], seen: list[str | None]) -> LeagueClient:
    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers.get("last-event-id"))
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    return LeagueClient(http=httpx2.Client(transport=httpx2.MockTransport(answer), base_url="http://league"))


def test_lost_connection_resumes_after_the_last_event(pauses: list[float]) -> None:
    first = httpx2.Response(200, text=f"id: 7.0\nevent: promote\n{BODY}: keep-alive\n\n")
    seen: list[str | None] = []
    events = mocked(iter([first, httpx2.ConnectError("away"), httpx2.Response(200, text=f"id: 8.0\n{BODY}")]), seen)
    followed = events.follow()
    assert [next(followed).cursor for _ in range(2)] == ["7.0", "8.0"]
    assert seen == [None, "7.0", "7.0"]
    assert pauses == [0.5, 1.0]


def test_connection_that_breaks_before_any_event_resumes_from_its_start(pauses: list[float]) -> None:
    seen: list[str | None] = []
    started = httpx2.Response(200, text=": keep-alive\n\n", headers={"Last-Event-ID": "6.0"})
    events = mocked(iter([started, httpx2.Response(200, text=BODY)]), seen)
    assert next(events.follow()).kind == "promote"
    assert seen == [None, "6.0"]


def test_rejected_token_ends_the_iteration(pauses: list[float]) -> None:
    rejected = httpx2.Response(401, json={"type": "unauthenticated", "detail": "revoked"})
    with refused("unauthenticated"):
        next(mocked(iter([rejected]), []).follow())
    assert pauses == []


def test_reader_gives_up_after_minutes_without_a_connection() -> None:
    now = [0.0]
    reader = EventReader(None, lambda: now[0])
    pauses = []
    with refused("league-unreachable"):
        while True:
            pauses.append(reader.pause_after(AWAY))
            now[0] += pauses[-1]
    assert GIVE_UP_S <= sum(pauses) <= GIVE_UP_S + LONGEST_PAUSE_S


def test_both_clients_follow_a_promotion(scene: Scene, http: TestClient) -> None:
    player = scene.publish(64)
    scene.client.promote(player.id)

    async def first(url: str) -> tuple[str, int | None]:
        async with AsyncLeagueClient(url) as client:
            async for event in client.follow(after="0.0"):
                if event.kind == "promote":
                    return event.cursor, event.player_id
        raise AssertionError("the stream ended")

    with listening(http.app) as url:
        with LeagueClient(url) as client:
            blocking = next(event for event in client.follow(after="0.0") if event.kind == "promote")
        assert asyncio.run(first(url)) == (blocking.cursor, player.id)
