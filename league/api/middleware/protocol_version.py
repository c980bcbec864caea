"""Protocol version: reject calls with a protocol that this server does not support.

See docs/contributing/decisions/0028-calls-name-their-protocol.md.
"""

from importlib.metadata import version

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from league.api import errors as api_errors
from league.errors import UnsupportedProtocolError
from league.wire import PREFIX, PROTOCOL, PROTOCOL_HEADER

OLDEST = 1
"""Oldest supported protocol, also assumed for calls without a version, which come from clients before it had one."""

_NAME = PROTOCOL_HEADER.lower().encode()
_SPOKEN = frozenset(str(number).encode() for number in range(OLDEST, PROTOCOL + 1))


class ProtocolVersionMiddleware:
    """Middleware that rejects calls with an unsupported protocol version."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on, or reject it with the side that needs an upgrade."""
        if scope["type"] == "http" and scope["path"].startswith(PREFIX) and not _is_supported(scope):
            refusal = api_errors.response(_refusal(Headers(scope=scope)[PROTOCOL_HEADER]))
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_supported(scope: Scope) -> bool:
    return all(value in _SPOKEN for name, value in scope["headers"] if name == _NAME)


def _refusal(requested: str) -> UnsupportedProtocolError:
    here = version("echelon-league")
    newer = requested.isdecimal() and int(requested) > PROTOCOL
    remedy = "upgrade the server first" if newer else f"install echelon-league {here} on the client"
    spoken = f"{OLDEST}" if OLDEST == PROTOCOL else f"{OLDEST} to {PROTOCOL}"
    return UnsupportedProtocolError(requested[:16], f"this server has version {here} and supports {spoken}", remedy)
