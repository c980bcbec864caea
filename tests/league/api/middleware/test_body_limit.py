"""Bodies that come slowly, never end, or are too many at once: they shut nobody else out."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, safetensors, sha256
from refused import assert_names
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from league.api.middleware import body_limit
from league.api.middleware.body_limit import BodyLimitMiddleware
from league.errors import BusyError, LeagueError, TooLargeError

Serve = Callable[..., TestClient]
JSON = [(b"content-type", b"application/json")]
REST_S = 0.01


class Call:
    """A call of an application whose body comes piece by piece, as the test says."""

    def __init__(
        self, app: ASGIApp, path: str, method: str = "POST", headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        self.waiting = asyncio.Event()
        self._pieces: asyncio.Queue[Message] = asyncio.Queue()
        self._sent: list[Message] = []
        known = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
        rest = {"http_version": "1.1", "scheme": "http", "root_path": "", "client": ("127.0.0.1", 1)}
        lengths = [] if any(name == b"content-length" for name, _ in headers) else [(b"transfer-encoding", b"chunked")]
        scope = {**known, **rest, "server": ("127.0.0.1", 80), "headers": [*headers, *lengths], "app": app, "state": {}}
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))  # type: ignore[arg-type]

    def send(self, body: bytes, *, more: bool = True) -> None:
        self._pieces.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self) -> None:
        self._pieces.put_nowait({"type": "http.disconnect"})

    async def answer(self) -> tuple[int, bytes]:
        await asyncio.wait_for(self.task, 30.0)
        start, *bodies = self._sent
        return start["status"], b"".join(message.get("body", b"") for message in bodies)

    async def _receive(self) -> Message:
        if self._pieces.empty():
            self.waiting.set()
        return await self._pieces.get()

    async def _send(self, message: Message) -> None:
        self._sent.append(message)


async def length(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the number of bytes of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message["body"]), message.get("more_body", False)
    await PlainTextResponse(str(size))(scope, receive, send)


def limited(app: ASGIApp = length, pause_s: float = 60.0) -> BodyLimitMiddleware:
    return BodyLimitMiddleware(app, body_max_bytes=10, checkpoint_max_bytes=100, pause_s=pause_s)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60.0))  # type: ignore[arg-type]


@ON_SQLITE
def test_stalled_bodies_do_not_block_other_requests(serve: Serve) -> None:
    """Nor need their callers have a token: four of them shut all results out."""
    http = serve(concurrency={"writes_running": 1, "writes_waiting": 0})

    async def test() -> None:
        for path in ("/api/v1/results", "/api/v1/leases"):
            slow, quick = Call(http.app, path, headers=JSON), Call(http.app, path, headers=JSON)
            slow.send(b"{")
            await slow.waiting.wait()
            quick.send(b"{}", more=False)
            assert (await quick.answer())[0] == 422
            slow.send(b"}", more=False)
            assert (await slow.answer())[0] == 422

    assert http.portal is not None
    http.portal.call(test)


@ON_SQLITE
def test_an_upload_that_stops_coming_gives_its_turn_back_and_leaves_nothing(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr("league.app._BODY_PAUSE_S", REST_S)
    http, data = serve(concurrency={"slow_running": 1, "slow_waiting": 0}), safetensors(1)
    path = f"/api/v1/checkpoints/{sha256(data)}"

    async def test() -> None:
        upload = Call(http.app, path, "PUT")
        upload.send(data[:10])
        status, body = await upload.answer()
        assert (status, BusyError.type in body.decode()) == (503, True)
        assert_names(body.decode(), 0.01, 1)

    assert http.portal is not None
    http.portal.call(test)
    assert [file for file in (tmp_path / "checkpoints").rglob("*") if file.is_file()] == []
    assert http.put(path, content=data).status_code == 201


def test_chunked_body_is_complete_and_the_response_has_no_deadline() -> None:
    after: list[Message] = []

    async def lasting(scope: Scope, receive: Receive, send: Send) -> None:
        await length(scope, receive, send)
        after.append(await receive())

    async def test() -> None:
        call = Call(limited(lasting, pause_s=REST_S), "/x")
        for piece in (b"123", b"", b"45"):
            call.send(piece)
        call.send(b"6", more=False)
        await call.waiting.wait()
        await asyncio.sleep(3 * REST_S)
        assert not call.task.done()
        call.send(b"", more=False)
        assert await call.answer() == (200, b"6")

    run(test)
    assert len(after) == 1


@pytest.mark.parametrize("headers", [(), ((b"content-length", b"4"),)])
def test_a_body_that_does_not_come_is_refused_after_a_while(headers: Sequence[tuple[bytes, bytes]]) -> None:
    async def test() -> None:
        call = Call(limited(pause_s=REST_S), "/x", headers=headers)
        call.send(b"12")
        status, body = await call.answer()
        assert status == BusyError.status
        assert_names(body.decode(), "busy", "POST /x")

    run(test)


@pytest.mark.parametrize(("path", "most"), [("/x", 10), (f"{body_limit.CHECKPOINTS}{'0' * 64}", 100)])
def test_oversized_content_length_is_rejected_before_the_body(path: str, most: int) -> None:
    async def test() -> None:
        for size, refused in ((most, False), (most + 1, True)):
            call = Call(limited(), path, "PUT", [(b"content-length", b"%d" % size)])
            if not refused:
                call.send(b"x" * size, more=False)
            status, body = await call.answer()
            assert status == (TooLargeError.status if refused else 200)
            assert (f"at most {most} bytes" in body.decode()) == refused

    run(test)


def test_buffered_bodies_have_a_total_limit() -> None:
    async def test() -> None:
        app = limited()
        held = [Call(app, "/x") for _ in range(body_limit.BODIES_MAX)]
        for call in held:
            call.send(b"x" * 10)
            await call.waiting.wait()
        beyond = Call(app, "/x")
        beyond.send(b"x")
        status, body = await beyond.answer()
        assert status == BusyError.status
        assert_names(body.decode(), 160, 1)
        for call in held:
            call.send(b"", more=False)
            assert await call.answer() == (200, b"10")
        again = Call(app, "/x")
        again.send(b"x" * 10, more=False)
        assert await again.answer() == (200, b"10")
        assert app._buffered_bytes == 0

    run(test)


@ON_SQLITE
def test_body_of_a_disconnected_client_is_incomplete(serve: Serve) -> None:
    http = serve()

    async def test() -> None:
        call = Call(http.app, "/api/v1/workers", headers=JSON)
        call.send(b'{"name": "a", "kind": "trainer", "version": "1", "signatures": []}')
        call.leave()
        status, body = await call.answer()
        assert status == 422
        assert "disconnected" in body.decode()

    assert http.portal is not None
    http.portal.call(test)
    assert http.get("/api/v1/workers").json()["items"] == []


@pytest.mark.parametrize("error", [LeagueError("x", "y", "z"), asyncio.CancelledError()])
def test_failed_request_releases_its_buffer(error: BaseException) -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    async def test() -> None:
        app = limited(failing)
        call = Call(app, "/x")
        call.send(b"123", more=False)
        with pytest.raises(type(error)):
            await call.task
        assert app._buffered_bytes == 0

    run(test)
