"""What open pages follow, over real sockets: more pages than there is room for, another server, a token that ends."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from fastapi.testclient import TestClient
from league_scene import Scene
from live_server import listening

from league.client import LeagueClient
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.auth import tokens
from league.web.cookies import cookie_at

STREAMS = 100
POLL_S = 0.1


@pytest.fixture
def backend() -> str:
    return "sqlite"


@asynccontextmanager
async def browser(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=url, limits=limits, timeout=60) as client:
        yield client


async def heard(stream: httpx2.Response, kind: str) -> str:
    """Read until an event of a kind comes; return its id."""
    event_id = ""
    async for line in stream.aiter_lines():
        field, _, value = line.partition(": ")
        event_id = value if field == "id" else event_id
        if field == "data" and json.loads(value)["kind"] == kind:
            return event_id
    raise AssertionError(f"the stream ended without {kind}")


def test_live_update_slots_are_limited_and_released(
    serve: Callable[..., TestClient],
) -> None:
    http = serve(events_poll_s=0.5, events_streams_max=STREAMS)
    scene = Scene(LeagueClient(http=http))
    player = scene.publish(1)

    async def follow(url: str) -> None:
        async with browser(url) as client:
            async with AsyncExitStack() as pages:
                opened = (pages.enter_async_context(client.stream("GET", "/live")) for _ in range(STREAMS))
                streams = await asyncio.gather(*opened)
                assert {stream.status_code for stream in streams} == {200}
                refused = await client.get("/live")
                assert refused.status_code == 503
                assert int(refused.headers["retry-after"]) >= 1
                await asyncio.to_thread(scene.client.promote, player.id)
                async with asyncio.timeout(60):
                    await asyncio.gather(*(heard(stream, "promote") for stream in streams))
            async with asyncio.timeout(60):
                while not await is_open(client):
                    await asyncio.sleep(POLL_S)

    with listening(http.app) as url:
        asyncio.run(follow(url))


async def is_open(client: httpx2.AsyncClient) -> bool:
    async with client.stream("GET", "/live") as stream:
        return stream.status_code == 200


def test_a_page_misses_nothing_while_its_server_is_started_again(serve: Callable[..., TestClient]) -> None:
    servers = [serve(events_poll_s=POLL_S) for _ in range(2)]
    scene = Scene(LeagueClient(http=servers[0]))
    players = [scene.publish(step) for step in (1, 2)]

    async def follow(url: str, change: Callable[[], Any] | None, kind: str, last: str | None) -> str:
        headers = {} if last is None else {"Last-Event-ID": last}
        async with browser(url) as client, client.stream("GET", "/live", headers=headers) as stream:
            if change is not None:
                await asyncio.to_thread(change)
            async with asyncio.timeout(60):
                return await heard(stream, kind)

    with listening(servers[0].app) as url:
        last = asyncio.run(follow(url, lambda: scene.client.promote(players[0].id), "promote", None))
    scene.client.retire(players[1].id)
    with listening(servers[1].app) as url:
        asyncio.run(follow(url, None, "retire", last))


def test_a_stream_ends_with_the_token_of_its_page(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    http = serve(events_poll_s=POLL_S)
    with database.write() as session:
        ends = time.now + timedelta(minutes=1)
        secret = tokens.create(session, "wall", "read", Cause("test", "", time.now), expires_at=ends)

    async def follow(url: str) -> None:
        cookie = {"Cookie": f"{cookie_at(urlsplit(url).port)}={secret}"}
        async with browser(url) as client:
            async with client.stream("GET", "/live", headers=cookie) as stream:
                assert stream.status_code == 200
                time.advance(61)
                async with asyncio.timeout(60):
                    async for line in stream.aiter_lines():
                        assert line in ("", ": keep-alive")
            assert (await client.get("/live", headers=cookie)).headers["location"] == "/sign-in?next=/live"

    with listening(http.app) as url:
        asyncio.run(follow(url))
