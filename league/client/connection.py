"""A connection to a league server: sending, waiting for a busy one, reading answers and errors."""

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
from league.wire import PREFIX, PROTOCOL, PROTOCOL_HEADER
from league.wire.request_class import request_class

_TOO_MANY_REQUESTS = 429
_PATIENCE_S = 30.0

AnswerT = TypeVar("AnswerT", bound=BaseModel)
Query = Mapping[str, str | int | Sequence[str] | None]


def segment(name: str) -> str:
    """Write an id as one segment of a path, whatever is in it."""
    return quote(name, safe="")


class Connection:
    """What the calls of all resources share; see `LeagueClient`."""

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
            raise UnauthenticatedError("with an unusable token", rule, "give it as `league token create` printed it")
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
        """Close the connections, unless the HTTP client was the caller's."""
        if self._owned:
            self._http.close()

    @property
    def address(self) -> Address:
        """Address of the server, with the place that it is from."""
        return self._address

    @property
    def timeout_s(self) -> float:
        """Longest wait for a connection, and between two pieces of an answer, in seconds."""
        return self._timeout_s

    def set_timeout(self, timeout_s: float) -> None:
        """Wait so long at most from the next call on; an HTTP client of the caller's keeps its own timeout."""
        self._timeout_s = timeout_s
        if self._owned:
            self._http.timeout = timeout_s

    def _get(self, path: str, kind: type[AnswerT], query: Query | None = None) -> AnswerT:
        answer = self._send("GET", PREFIX + path, query=query)
        raise_for_problem(answer)
        return read(answer, kind)

    def _post(self, path: str, body: BaseModel, kind: type[AnswerT]) -> AnswerT:
        answer = self._send("POST", PREFIX + path, body)
        raise_for_problem(answer)
        return read(answer, kind)

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
            written = body.model_dump_json(exclude_unset=True)  # an older server refuses fields that it does not know
            content, headers["Content-Type"] = written.encode(), "application/json"
        params = {key: value for key, value in (query or {}).items() if value is not None}
        lane, until = request_class(method, path), self._patience.begin()
        start = 0 if content is None or isinstance(content, bytes) else content.tell()
        while True:
            self._patience.await_turn(lane, until)
            try:
                answer = self._http.request(method, path, content=content, params=params, headers=headers)
            except httpx2.TransportError as error:
                raise self._unreachable(error) from error
            refusal = come_back_later(answer)
            if refusal is None:
                return answer
            self._patience.note(lane, refusal)
            if not (content is None or isinstance(content, bytes)):
                content.seek(start)

    def _unreachable(self, error: httpx2.TransportError) -> LeagueUnreachable:
        cause = str(error) or type(error).__name__
        return LeagueUnreachable(self._http.base_url, f"no answer ({cause})", self._address.way_out)


def patience_of(seconds: float) -> RetryGate:
    """Return patience with a busy server for so many seconds a call; 0 never waits."""
    return RetryGate(seconds, time.monotonic, time.sleep, random.Random())  # noqa: S311 - jitter


def come_back_later(answer: httpx2.Response) -> LeagueError | None:
    """Return the refusal of a call that nothing came of yet because there are too many; None for any other answer."""
    if answer.status_code not in (BusyError.status, _TOO_MANY_REQUESTS):
        return None
    error = _problem(answer)
    early = isinstance(error, BusyError) or answer.status_code == _TOO_MANY_REQUESTS
    return error if early and error is not None and error.retry_after_s is not None else None


def _problem(answer: httpx2.Response) -> LeagueError | None:
    """Return the error that the answer carries, if it carries one."""
    try:
        problem = answer.json()
    except json.JSONDecodeError:
        return None
    if not (isinstance(problem, dict) and "type" in problem):
        return None
    error = from_problem(problem)
    seconds = answer.headers.get("Retry-After", "")
    error.retry_after_s = int(seconds) if seconds.isdecimal() else None
    return error


def raise_for_problem(answer: httpx2.Response) -> None:
    """Raise the error that the answer carries, if it carries one."""
    if answer.is_success:
        return
    raise _problem(answer) or _strange(answer, f"it answered {answer.status_code}")


def read(answer: httpx2.Response, kind: type[AnswerT]) -> AnswerT:
    """Read an answer; one of another kind is no league's of this version."""
    try:
        return kind.model_validate_json(answer.content)
    except ValidationError as error:
        raise _strange(answer, f"its answer is not a {kind.__name__} ({error.error_count()} fields differ)") from error


def _strange(answer: httpx2.Response, rule: str) -> LeagueError:
    return LeagueError(answer.url, rule, "check that a league server of this version listens there")
