"""HTTP connection to a league server: requests, back-off, responses and errors."""

import json
import random
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Self, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ValidationError

from league.client.address import Address, find_league
from league.client.backoff import RetryGate
from league.errors import (
    BusyError,
    LeagueError,
    LeagueUnreachable,
    UnauthenticatedError,
    from_problem,
)
from league.request_class import request_class
from league.wire import PREFIX, PROTOCOL, PROTOCOL_HEADER

_TOO_MANY_REQUESTS = 429
_PATIENCE_S = 30.0

ResponseT = TypeVar("ResponseT", bound=BaseModel)
Query = Mapping[str, str | int | Sequence[str] | None]


def segment(name: str) -> str:
    """Escape an id as one path segment."""
    return quote(name, safe="")


class Connection:
    """Base of the calls of all resources; see `LeagueClient`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        http: httpx2.Client | None = None,
        timeout_s: float = 30.0,
        patience: RetryGate | None = None,
    ) -> None:
        self._address = find_league(url) if http is None else Address(str(http.base_url))
        if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
            rule = "a token is one word of ASCII characters"
            raise UnauthenticatedError("with an unusable token", rule, "use the output of `league token create`")
        self._owned = http is None
        self._timeout_s = timeout_s
        self._patience = patience_of(_PATIENCE_S) if patience is None else patience
        self._http = (
            httpx2.Client(base_url=str(self._address), timeout=timeout_s, follow_redirects=True)
            if http is None
            else http
        )
        self._headers = {PROTOCOL_HEADER: str(PROTOCOL)}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the HTTP client unless the caller owns it."""
        if self._owned:
            self._http.close()

    @property
    def address(self) -> Address:
        """URL of the server and its source."""
        return self._address

    @property
    def timeout_s(self) -> float:
        """Timeout for the connection and between two chunks of a response, in seconds."""
        return self._timeout_s

    def set_timeout(self, timeout_s: float) -> None:
        """Set the timeout from the next call on; an HTTP client of the caller keeps its own."""
        self._timeout_s = timeout_s
        if self._owned:
            self._http.timeout = timeout_s

    def _get(self, path: str, kind: type[ResponseT], query: Query | None = None) -> ResponseT:
        response = self._send("GET", PREFIX + path, query=query)
        raise_for_problem(response)
        return read(response, kind)

    def _post(self, path: str, body: BaseModel, kind: type[ResponseT]) -> ResponseT:
        response = self._send("POST", PREFIX + path, body)
        raise_for_problem(response)
        return read(response, kind)

    def _send(
        self,
        method: str,
        path: str,
        body: BaseModel | None = None,
        query: Query | None = None,
        content: bytes | IO[bytes] | None = None,
    ) -> httpx2.Response:
        headers = dict(self._headers)
        if body is not None:
            encoded = body.model_dump_json(exclude_unset=True)  # an older server rejects unknown fields
            content, headers["Content-Type"] = encoded.encode(), "application/json"
        params = {key: value for key, value in (query or {}).items() if value is not None}
        # The deadline covers all attempts of the call together.
        kind, until = request_class(method, path), self._patience.begin()
        start = 0 if content is None or isinstance(content, bytes) else content.tell()
        while True:
            self._patience.await_turn(kind, until)
            try:
                response = self._http.request(method, path, content=content, params=params, headers=headers)
            except httpx2.TransportError as error:
                raise self._unreachable(error) from error
            refusal = retriable_rejection(response)
            if refusal is None:
                return response
            self._patience.record(kind, refusal)
            if not (content is None or isinstance(content, bytes)):
                # A rejected attempt may have consumed part of the stream.
                content.seek(start)

    def _unreachable(self, error: httpx2.TransportError) -> LeagueUnreachable:
        cause = str(error) or type(error).__name__
        return LeagueUnreachable(self._http.base_url, f"no response ({cause})", self._address.way_out)


def patience_of(seconds: float) -> RetryGate:
    """Return a back-off with a maximum wait per call in seconds; 0 never waits."""
    return RetryGate(seconds, time.monotonic, time.sleep, random.Random())  # noqa: S311 - jitter


def retriable_rejection(response: httpx2.Response) -> LeagueError | None:
    """Return the error of a 429 or 503 with Retry-After, which had no side effect; None for other responses."""
    if response.status_code not in (BusyError.status, _TOO_MANY_REQUESTS):
        return None
    error = _problem(response)
    # Rejected before any work, so the call can be repeated. Another 503 may come from a commit with unknown outcome.
    early = isinstance(error, BusyError) or response.status_code == _TOO_MANY_REQUESTS
    return error if early and error is not None and error.retry_after_s is not None else None


def _problem(response: httpx2.Response) -> LeagueError | None:
    """Return the error of a problem response, or None."""
    try:
        problem = response.json()
    except json.JSONDecodeError:
        return None
    if not (isinstance(problem, dict) and "type" in problem):
        return None
    error = from_problem(problem)
    seconds = response.headers.get("Retry-After", "")
    error.retry_after_s = int(seconds) if seconds.isdecimal() else None
    return error


def raise_for_problem(response: httpx2.Response) -> None:
    """Raise the error of an unsuccessful response."""
    if response.is_success:
        return
    raise _problem(response) or _unexpected(response, f"it returned {response.status_code}")


def read(response: httpx2.Response, kind: type[ResponseT]) -> ResponseT:
    """Parse a response.

    Raises:
        LeagueError: The response is not from a league server of this version.
    """
    try:
        return kind.model_validate_json(response.content)
    except ValidationError as error:
        raise _unexpected(
            response, f"its response is not a {kind.__name__} ({error.error_count()} fields differ)"
        ) from error


def _unexpected(response: httpx2.Response, rule: str) -> LeagueError:
    return LeagueError(response.url, rule, "check that a league server of this version listens there")
