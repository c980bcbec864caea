"""Bodies larger than the server takes are refused before they are read into memory."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from league.api import problems
from league.errors import TooLargeError
from league.storage import refusals
from league.wire import PREFIX

CHECKPOINTS = f"{PREFIX}/checkpoints/"


class BodyLimit:
    """Middleware that bounds bodies; a checkpoint has a bound of its own and is streamed.

    Args:
        app: What to protect.
        body_max_bytes: Bound of everything but checkpoints.
        checkpoint_max_bytes: Bound of a checkpoint.
    """

    def __init__(self, app: ASGIApp, body_max_bytes: int, checkpoint_max_bytes: int) -> None:
        self._app = app
        self._body_max_bytes = body_max_bytes
        self._checkpoint_max_bytes = checkpoint_max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        checkpoint = scope["method"] == "PUT" and scope["path"].startswith(CHECKPOINTS)
        bound = self._checkpoint_max_bytes if checkpoint else self._body_max_bytes
        declared = _declared_bytes(scope)
        messages: list[Message] = []
        size = declared or 0
        if declared is None and not checkpoint:
            messages, size = await _read(receive, bound)
        if size > bound:
            error = refusals.too_large(size, bound) if checkpoint else _too_large(size, bound)
            await problems.response(error)(scope, receive, send)
            return
        await self._app(scope, replayed(messages, receive), send)


def _too_large(size: int, max_bytes: int) -> TooLargeError:
    way_out = "send it in smaller parts, or raise LEAGUE_BODY_MAX_BYTES"
    return TooLargeError(f"{size} bytes", f"a body has at most {max_bytes} bytes", way_out)


def _declared_bytes(scope: Scope) -> int | None:
    """Return what Content-Length says; None where the body comes in chunks, 0 where there is none."""
    headers = dict(scope["headers"])
    length = headers.get(b"content-length")
    if length is not None and length.isdigit():
        return int(length)
    return None if b"transfer-encoding" in headers else 0


async def _read(receive: Receive, bound: int) -> tuple[list[Message], int]:
    """Read a body of unknown size, up to just above the bound."""
    messages: list[Message] = []
    size = 0
    while size <= bound:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    return messages, size


def replayed(messages: list[Message], receive: Receive) -> Receive:
    """Return what gives messages that were received already once more, and then what comes."""

    async def replay() -> Message:
        return messages.pop(0) if messages else await receive()

    return replay
