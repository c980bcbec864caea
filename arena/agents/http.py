"""External agent behind an HTTP server: every request is a POST, and its body is the response message."""

import http.client
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

from arena.agents import json_messages as messages
from arena.agents.errors import ExternalPolicyError
from arena.agents.json_messages import Conversation
from arena.environments.spec import EnvironmentSpec
from arena.errors import truncate

PIECE_BYTES = 2**20
"""Largest part of a response that is read at once."""

_OK = 200
_STALE = (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected)


class HttpActor(Conversation):
    """Client of an HTTP agent with a persistent connection and one request at a time.

    A server may close an idle connection. The request is then repeated once over a new one.

    Args:
        address: Address of the server.
        spec: The game, sent with the first request.
        start_s: Time limit of the response to the first request, in seconds.
        answer_s: Time limit of the response to a batch, in seconds.

    Raises:
        ExternalPolicyError: The server cannot be reached or does not respond to the hello.
    """

    def __init__(self, address: str, spec: EnvironmentSpec, *, start_s: float, answer_s: float) -> None:
        self._parts = _split(address)
        self._connection: http.client.HTTPConnection | None = None
        super().__init__(spec, start_s=start_s, answer_s=answer_s)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, message: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        body, reused = messages.encode(message), self._connection is not None
        try:
            try:
                return messages.decode(self._post(body, limit_s))
            except _STALE:
                if not reused:  # only an idle connection can be stale: an error on a new one is final
                    raise
                self.close()
                return messages.decode(self._post(body, limit_s))
        except TimeoutError as error:
            self.close()
            raise ExternalPolicyError(
                f"it took longer than {limit_s:g} s to respond to {message['type']}: make it faster, or raise --timeout"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ExternalPolicyError(
                f"it cannot be reached ({truncate(error) or type(error).__name__}): check that it listens there"
            ) from error

    def _post(self, body: bytes, limit_s: float) -> bytes:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(self._parts.hostname or "", self._parts.port, timeout=limit_s)
        connection = self._connection
        if connection.sock is not None:
            connection.sock.settimeout(limit_s)
        path = f"{self._parts.path or '/'}?{self._parts.query}".removesuffix("?")
        due = time.monotonic() + limit_s
        connection.request("POST", path, body, {"Content-Type": "application/json", "Accept": "application/json"})
        with connection.getresponse() as answer:
            content = _read(answer, due)
        if answer.status != _OK:
            reason = _reason(content)
            raise ExternalPolicyError(f"it answered with status {answer.status} ({reason}): it must be {_OK}")
        return content


def _read(answer: http.client.HTTPResponse, due: float) -> bytes:
    """Read a response's body within the time limit, which the socket timeout alone does not enforce for slow bodies."""
    content = bytearray()
    while piece := answer.read1(PIECE_BYTES):
        content += piece
        if len(content) > messages.ANSWER_MAX_BYTES:
            raise ExternalPolicyError(f"it answered more than {messages.ANSWER_MAX_BYTES} bytes: an answer is shorter")
        if time.monotonic() > due:
            raise TimeoutError
    return bytes(content)


def _reason(content: bytes) -> str:
    with suppress(ExternalPolicyError):
        return truncate(messages.decode(content))
    return truncate(content.decode(errors="replace"))


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError as error:
        raise ExternalPolicyError(f"{address} is not an address ({error}): write http://HOST:PORT/PATH") from error
    if not parts.hostname:
        raise ExternalPolicyError(f"{address} has no host: write http://HOST:PORT/PATH")
    return parts
