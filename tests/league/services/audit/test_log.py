"""The stream of events, over a real socket."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene
from sqlalchemy import update
from sqlalchemy.orm import Session

from league.api.routers import events as stream
from league.auth import OPEN
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Token
from league.errors import BusyError, InvalidRequestError
from league.services.audit.log import Cause
from league.services.auth import tokens

START = datetime(2030, 1, 1, tzinfo=UTC)

Told = tuple[str, str, dict[str, Any]]


@pytest.fixture
def address(http: TestClient) -> Iterator[str]:
    """The same application, listening on a port of its own."""
    server = uvicorn.Server(uvicorn.Config(http.app, lifespan="off", log_level="error", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def configure(configure: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **changes: configure(events_poll_s=0.01, events_streams_max=3, **changes)


def follow(address: str, count: int, since: str, begun: threading.Event | None = None) -> list[Told]:
    """Read so many events from the stream."""
    told: list[Told] = []
    fields: dict[str, str] = {}
    headers = {"Last-Event-ID": since}
    with httpx2.stream("GET", f"{address}/api/v1/events", headers=headers, timeout=120) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        if begun is not None:
            begun.set()
        for line in answer.iter_lines():
            key, _, value = line.partition(": ")
            if key in ("id", "event", "data"):
                fields[key] = value
            elif not line and fields:
                told.append((fields["id"], fields["event"], json.loads(fields["data"])))
                fields = {}
                if len(told) == count:
                    return told
    return told


def test_event_stream_reports_results_periods_and_promotions_in_order(scene: Scene, address: str) -> None:
    snapshot = scene.publish(1)
    scene.train(3)
    scene.client.promote(snapshot.id, "look at it")
    scene.client.close_period()
    told = follow(address, 3, "0.0")
    assert [kind for _, kind, _ in told] == ["promote", "period", "result"]
    assert told[0][2]["reason"] == "look at it"
    assert told[1][2]["details"]["matches"] == 3
    assert told[2][2]["details"] == {"matches": 3}
    assert told[2][2]["environment"] == scene.environment


def test_reconnecting_reader_receives_only_missed_events(scene: Scene, address: str) -> None:
    scene.train(2)
    scene.client.close_period()
    first = follow(address, 2, "0.0")
    scene.train(1)
    scene.client.close_period()
    rest = follow(address, 2, first[-1][0])
    assert [kind for _, kind, _ in rest] == ["period", "result"]
    assert rest[1][2]["details"] == {"matches": 1}


def test_live_reader_receives_events_of_another_server(
    scene: Scene, address: str, serve: Callable[..., TestClient]
) -> None:
    begun = threading.Event()
    told: list[Told] = []
    reader = threading.Thread(target=lambda: told.extend(follow(address, 1, "0.0", begun)))
    reader.start()
    begun.wait()
    LeagueClient(http=serve()).close_period(reason="elsewhere")
    reader.join()
    assert [(kind, event["reason"]) for _, kind, event in told] == [("period", "elsewhere")]


def test_a_new_reader_starts_from_now(scene: Scene, http: TestClient) -> None:
    scene.train(2)
    scene.client.close_period()
    league = http.app.state.league
    assert stream._since(league, stream._latest(league)) == []
    scene.client.close_period()
    assert len(stream._since(league, (1, 2))) == 1


@ON_SQLITE
def test_a_cursor_of_another_kind_is_refused(http: TestClient) -> None:
    answer = http.get("/api/v1/events", headers={"Last-Event-ID": "yesterday"})
    assert (answer.status_code, answer.json()["type"]) == (422, InvalidRequestError.type)
    assert "yesterday" in answer.json()["detail"]


# --- many readers ----------------------------------------------------------------------------------------------------


@ON_SQLITE
def test_one_stream_too_many_is_refused_until_another_is_closed(http: TestClient, address: str) -> None:
    league = http.app.state.league  # type: ignore[attr-defined]
    events = f"{address}/api/v1/events"
    with ExitStack() as readers:
        opened = [readers.enter_context(httpx2.stream("GET", events, timeout=120)).iter_lines() for _ in range(3)]
        assert [next(lines) for lines in opened] == [": keep-alive"] * 3
        refused = httpx2.get(events)
        assert (refused.status_code, refused.json()["type"]) == (503, BusyError.type)
        assert "LEAGUE_EVENTS_STREAMS_MAX" in refused.json()["detail"]
        assert refused.headers["retry-after"] == "10"
    while league.streams:
        threading.Event().wait(0.01)
    with httpx2.stream("GET", events, timeout=120) as answer:
        assert answer.status_code == 200


@ON_SQLITE
def test_of_many_streams_at_once_no_more_are_opened_than_fit(http: TestClient) -> None:
    league = http.app.state.league  # type: ignore[attr-defined]

    async def open_five() -> int:
        asked = (stream.stream_events(league, OPEN, never, None) for _ in range(5))
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(each, BusyError) for each in told) == 2
        return len(league.streams)

    assert asyncio.run(open_five()) == 3
    assert len(league.streams) == 0  # nobody reads what was opened


async def never() -> bool:
    return False


# --- the end of a token ----------------------------------------------------------------------------------------------

SOME, MANY = 200, 20_000
"""Lines of a stream that says something every hundredth of a second: of a while, and of minutes."""


def revoke(session: Session) -> None:
    tokens.revoke(session, "wall", Cause("test", "", START))


def expire(session: Session) -> None:
    session.execute(update(Token).where(Token.name == "wall").values(expires_at=START - timedelta(days=10_000)))


def ends(lines: Iterator[str]) -> bool:
    """Read to the end; on a busy machine much may have been said before that was due."""
    return sum(1 for _ in islice(lines, MANY)) < MANY


def goes_on(lines: Iterator[str]) -> bool:
    return sum(1 for _ in islice(lines, SOME)) == SOME


@pytest.mark.parametrize("end", [revoke, expire])
def test_a_stream_ends_with_its_token(
    http: TestClient, address: str, database: Database, end: Callable[[Session], None]
) -> None:
    with database.write() as session:
        secrets = [tokens.create(session, name, "read", Cause("test", "", START)) for name in ("wall", "desk")]
    wall, desk = ({"Authorization": f"Bearer {secret}"} for secret in secrets)
    with (
        httpx2.stream("GET", f"{address}/api/v1/events", headers=wall, timeout=120) as ending,
        httpx2.stream("GET", f"{address}/api/v1/events", headers=desk, timeout=120) as lasting,
    ):
        lines, others = ending.iter_lines(), lasting.iter_lines()
        assert next(lines) == next(others) == ": keep-alive"
        with database.write() as session:
            end(session)
        assert ends(lines)
        assert goes_on(others)
    assert http.get("/api/v1/events", headers=wall).status_code == 401


def test_a_stream_of_an_open_league_ends_when_it_is_closed(address: str, database: Database) -> None:
    with httpx2.stream("GET", f"{address}/api/v1/events", timeout=120) as ending:
        lines = ending.iter_lines()
        assert next(lines) == ": keep-alive"
        with database.write() as session:
            tokens.create(session, "wall", "read", Cause("test", "", START))
        assert ends(lines)
