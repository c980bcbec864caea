"""The async client has the methods of the blocking one, with the same results, back-off and errors."""

import asyncio
import hashlib
import inspect
import random
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from league_scene import SIGNATURE, Scene, safetensors, sha256
from live_server import listening
from refused import refused
from starlette.testclient import TestClient

from league import wire
from league.client import AsyncLeagueClient, LeagueClient
from league.client.backoff import RetryGate
from league.errors import BusyError

CONTENT = bytes(range(100))
BUSY = BusyError("for GET /api/v1/players", "2 calls run already", "send it again in 1 s")
BLOCKING_ONLY = {"attach", "set_timeout"}


def methods(client: type) -> dict[str, inspect.Signature]:
    names = [name for name in dir(client) if not name.startswith("_") and callable(getattr(client, name))]
    return {name: inspect.signature(getattr(client, name)) for name in names if name not in ("run", "close")}


def test_both_clients_have_the_same_methods() -> None:
    ours, other = methods(LeagueClient), methods(AsyncLeagueClient)
    assert set(ours) - set(other) == BLOCKING_ONLY
    assert set(other) <= set(ours)
    assert len(other) > 40
    assert all(list(ours[name].parameters) == list(other[name].parameters) for name in other)


def test_snapshot_is_published_and_read_like_with_the_blocking_client(
    scene: Scene, http: TestClient, tmp_path: Path
) -> None:
    data = safetensors(1, signature=SIGNATURE)
    (tmp_path / "weights").write_bytes(data)

    async def publish(url: str) -> tuple[wire.Player, bytes]:
        async with AsyncLeagueClient(url) as client:
            await client.upload(tmp_path / "weights", sha256(data))
            request = wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(data), step=64)
            player, health = await asyncio.gather(client.publish(request), client.health())
            assert health.status == "ok"
            return player, await client.download(sha256(data))

    with listening(http.app) as url:
        player, downloaded = asyncio.run(publish(url))
    assert (player.id, player.step) == (scene.client.player(player.id).id, 64)
    assert downloaded == data


def mocked(answer: httpx2.MockTransport, patience: RetryGate | None = None) -> AsyncLeagueClient:
    http = httpx2.AsyncClient(transport=answer, base_url="http://league")
    return AsyncLeagueClient(http=http, patience=patience)


def test_busy_server_is_called_again_without_blocking_the_event_loop() -> None:
    refusal = httpx2.Response(503, json=BUSY.problem(), headers={"Retry-After": "1"})
    answers = iter([refusal, httpx2.Response(200, json={"items": [], "next_cursor": None})])
    now = [0.0]

    def tick() -> float:
        now[0] += 0.99  # the second look at the clock finds that almost all of the wait has passed
        return now[0]

    def sleep(_seconds: float) -> None:
        raise AssertionError("it must not block")

    client = mocked(httpx2.MockTransport(lambda _: next(answers)), RetryGate(30.0, tick, sleep, random.Random(0)))
    assert asyncio.run(client.players()).items == []


def test_server_error_is_raised_with_its_code() -> None:
    client = mocked(
        httpx2.MockTransport(lambda _: httpx2.Response(404, json={"type": "unknown-player", "detail": "7"}))
    )
    with refused("unknown-player"):
        asyncio.run(client.player(7))


class Breaking(httpx2.AsyncByteStream):
    """Body of a connection that breaks."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content
        raise httpx2.ReadError("the connection broke")


@pytest.mark.parametrize(("chunk", "calls"), [(60, 2), (0, 1)])
def test_broken_download_resumes_where_it_stopped(chunk: int, calls: int) -> None:
    ranges: list[str | None] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        ranges.append(request.headers.get("range"))
        if len(ranges) == 1:
            return httpx2.Response(200, stream=Breaking(CONTENT[:chunk]))
        return httpx2.Response(206, content=CONTENT[chunk:])

    client = mocked(httpx2.MockTransport(answer))
    download = client.download(hashlib.sha256(CONTENT).hexdigest())
    if not chunk:
        with refused("league-unreachable", "the connection broke"):
            asyncio.run(download)
    else:
        assert asyncio.run(download) == CONTENT
    assert ranges == [None, f"bytes={chunk}-"][:calls]
