"""Body limit: a body is read before its call is queued; one that is too large or too slow is refused.

A call that had its turn while its body is on its way would keep it for as long as its sender likes: four that send
slowly, or whose network was cut, would shut all results out.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from league.api import errors as api_errors
from league.errors import BusyError, LeagueError, TooLargeError
from league.storage import refusals
from league.wire import PREFIX

CHECKPOINTS = f"{PREFIX}/checkpoints/"

BODIES_MAX = 16
"""How many of the largest bodies a process holds at once, those of calls that wait for their turn among them."""

_RETRY_AFTER_S = 1


class BodyLimitMiddleware:
    """Middleware that takes in bodies and bounds them; a checkpoint has a bound of its own and is streamed.

    Args:
        app: What to protect.
        body_max_bytes: Bound of everything but checkpoints.
        checkpoint_max_bytes: Bound of a checkpoint.
        pause_s: Longest wait for the next piece of a body.
    """

    def __init__(self, app: ASGIApp, body_max_bytes: int, checkpoint_max_bytes: int, pause_s: float) -> None:
        self._app = app
        self._body_max_bytes = body_max_bytes
        self._checkpoint_max_bytes = checkpoint_max_bytes
        self._pause_s = pause_s
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        declared = _declared_bytes(scope) if scope["type"] == "http" else 0
        if declared == 0:
            await self._app(scope, receive, send)
            return
        try:
            if scope["method"] == "PUT" and scope["path"].startswith(CHECKPOINTS):
                refusals.require_size(declared or 0, self._checkpoint_max_bytes)
                messages: list[Message] = []
            else:
                self._require_room(scope, declared or 0)
                messages = await self._read(scope, self._patient(scope, receive))
        except LeagueError as refusal:
            await api_errors.response(refusal)(scope, receive, send)
            return
        size = sum(len(message.get("body", b"")) for message in messages)
        try:
            await self._app(scope, replayed(messages, receive) if messages else self._patient(scope, receive), send)
        finally:
            self._held_bytes -= size

    async def _read(self, scope: Scope, receive: Receive) -> list[Message]:
        """Read a whole body, in however many pieces it comes, and what follows where its sender went away.

        Its bytes are held from then on.

        Raises:
            TooLargeError: It has more bytes than the server takes.
            BusyError: Too many are on their way, or no more of them come.
        """
        body = bytearray()
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return [_piece(body, more=True), message]
                body += message.get("body", b"")
                self._held_bytes += len(message.get("body", b""))
                self._require_room(scope, len(body))
                if not message.get("more_body", False):
                    return [_piece(body, more=False)]
        except BaseException:
            self._held_bytes -= len(body)
            raise

    def _require_room(self, scope: Scope, size: int) -> None:
        if size > self._body_max_bytes:
            way_out = "send it in smaller parts, or raise LEAGUE_BODY_MAX_BYTES"
            raise TooLargeError(f"{size} bytes", f"a body has at most {self._body_max_bytes} bytes", way_out)
        most = BODIES_MAX * self._body_max_bytes
        if self._held_bytes > most:
            raise _busy(scope, f"the bodies of other calls already take more than {most} bytes")

    def _patient(self, scope: Scope, receive: Receive) -> Receive:
        """Return what waits so long for each piece of a body, and for whatever comes after it as long as it takes."""
        more = True

        async def patient() -> Message:
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

        return patient


def _piece(body: bytearray, *, more: bool) -> Message:
    return {"type": "http.request", "body": bytes(body), "more_body": more}


def _busy(scope: Scope, rule: str) -> BusyError:
    error = BusyError(f"for {scope['method']} {scope['path']}", rule, f"send it again in {_RETRY_AFTER_S} s")
    error.retry_after_s = _RETRY_AFTER_S
    return error


def _declared_bytes(scope: Scope) -> int | None:
    """Return what Content-Length says; None where the body comes in chunks, 0 where there is none."""
    headers = dict(scope["headers"])
    length = headers.get(b"content-length")
    if length is not None and length.isdigit():
        return int(length)
    return None if b"transfer-encoding" in headers else 0


def replayed(messages: list[Message], receive: Receive) -> Receive:
    """Return what gives messages that were received already once more, and then what comes."""

    async def replay() -> Message:
        return messages.pop(0) if messages else await receive()

    return replay
