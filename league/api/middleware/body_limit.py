"""Body limit: read a body before its call is queued, and reject bodies that are too large or too slow.

If a call entered the queue first, a slow client would occupy its turn: four slow or disconnected clients would block
all results.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from league.api import errors as api_errors
from league.errors import BusyError, LeagueError, TooLargeError
from league.storage import refusals
from league.wire import PREFIX

CHECKPOINTS = f"{PREFIX}/checkpoints/"

BODIES_MAX = 16
"""Memory limit in multiples of the largest body, including bodies of queued calls."""

_RETRY_AFTER_S = 1


class BodyLimitMiddleware:
    """Middleware that buffers and limits bodies; checkpoints have their own limit and are streamed.

    Args:
        app: The application behind it.
        body_max_bytes: Largest body, except checkpoints.
        checkpoint_max_bytes: Largest checkpoint.
        pause_s: Longest wait for the next chunk of a body, in seconds.
    """

    def __init__(self, app: ASGIApp, body_max_bytes: int, checkpoint_max_bytes: int, pause_s: float) -> None:
        self._app = app
        self._body_max_bytes = body_max_bytes
        self._checkpoint_max_bytes = checkpoint_max_bytes
        self._pause_s = pause_s
        self._buffered_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its buffered body, or reject it."""
        declared = _declared_bytes(scope) if scope["type"] == "http" else 0
        if declared == 0:
            await self._app(scope, receive, send)
            return
        try:
            if scope["method"] == "PUT" and scope["path"].startswith(CHECKPOINTS):
                refusals.require_size(declared or 0, self._checkpoint_max_bytes)
                messages: list[Message] = []
            else:
                # A declared size is checked before the first byte is read.
                self._require_room(scope, declared or 0)
                messages = await self._read(scope, self._with_timeout(scope, receive))
        except LeagueError as refusal:
            await api_errors.response(refusal)(scope, receive, send)
            return
        size = sum(len(message.get("body", b"")) for message in messages)
        try:
            await self._app(
                scope, replayed(messages, receive) if messages else self._with_timeout(scope, receive), send
            )
        finally:
            self._buffered_bytes -= size

    async def _read(self, scope: Scope, receive: Receive) -> list[Message]:
        """Read a whole body, and the disconnect message if the client went away. Its bytes count until the call ends.

        Raises:
            TooLargeError: The body exceeds the limit.
            BusyError: Too many bodies are buffered, or no more of this one arrives.
        """
        body = bytearray()
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    # The endpoint sees an incomplete body followed by the disconnect, as without this middleware.
                    return [_piece(body, more=True), message]
                body += message.get("body", b"")
                self._buffered_bytes += len(message.get("body", b""))
                self._require_room(scope, len(body))
                if not message.get("more_body", False):
                    return [_piece(body, more=False)]
        except BaseException:
            self._buffered_bytes -= len(body)
            raise

    def _require_room(self, scope: Scope, size: int) -> None:
        if size > self._body_max_bytes:
            remedy = "send it in smaller parts, or raise LEAGUE_BODY_MAX_BYTES"
            raise TooLargeError(f"{size} bytes", f"a body has at most {self._body_max_bytes} bytes", remedy)
        most = BODIES_MAX * self._body_max_bytes
        if self._buffered_bytes > most:
            raise _busy(scope, f"the bodies of other calls already take more than {most} bytes")

    def _with_timeout(self, scope: Scope, receive: Receive) -> Receive:
        """Return a `receive` with a timeout for each chunk of a body and none for later messages."""
        more = True

        async def receive_with_timeout() -> Message:
            nonlocal more
            if not more:
                return await receive()
            try:
                async with asyncio.timeout(self._pause_s):
                    message = await receive()
            except TimeoutError as error:
                raise _busy(scope, f"no more of its body arrived for {self._pause_s:g} s") from error
            more = message.get("more_body", False)
            return message

        return receive_with_timeout


def _piece(body: bytearray, *, more: bool) -> Message:
    return {"type": "http.request", "body": bytes(body), "more_body": more}


def _busy(scope: Scope, rule: str) -> BusyError:
    error = BusyError(f"for {scope['method']} {scope['path']}", rule, f"send it again in {_RETRY_AFTER_S} s")
    error.retry_after_s = _RETRY_AFTER_S
    return error


def _declared_bytes(scope: Scope) -> int | None:
    """Return the Content-Length; None for a chunked body, 0 without a body."""
    headers = dict(scope["headers"])
    length = headers.get(b"content-length")
    if length is not None and length.isdigit():
        return int(length)
    return None if b"transfer-encoding" in headers else 0


def replayed(messages: list[Message], receive: Receive) -> Receive:
    """Return a `receive` that first returns buffered messages and then new ones."""

    async def replay() -> Message:
        return messages.pop(0) if messages else await receive()

    return replay
