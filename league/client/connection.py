"""Blocking HTTP connection to a league server."""

import time
from collections.abc import Iterator
from contextlib import closing
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

import httpx2

from league import wire
from league.client.backoff import RetryGate
from league.client.endpoint import Endpoint, file_of
from league.client.event_reader import EventReader
from league.client.operation import Call, Steps
from league.client.responses import Received, retriable_rejection
from league.errors import LeagueError
from league.request_class import request_class
from league.wire import PREFIX

T = TypeVar("T")


class Connection(Endpoint):
    """Runs operations with blocking calls; see `LeagueClient`."""

    is_async: ClassVar = False
    _http: httpx2.Client

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        http: httpx2.Client | None = None,
        timeout_s: float = 30.0,
        patience: RetryGate | None = None,
    ) -> None:
        super().__init__(url, token, http, timeout_s, patience)
        self._http = http or httpx2.Client(base_url=str(self._address), timeout=timeout_s, follow_redirects=True)

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

    def set_timeout(self, timeout_s: float) -> None:
        """Set the timeout from the next call on; an HTTP client of the caller keeps its own."""
        self._timeout_s = timeout_s
        if self._owned:
            self._http.timeout = timeout_s

    def run(self, steps: Steps[T]) -> T:
        """Make the calls of an operation and return its result."""
        # If a call raises, this ends the operation now, and not when its generator is collected.
        with closing(steps):
            try:
                call = next(steps)
                while True:
                    call = steps.send(self._send(call))
            except StopIteration as end:
                result: T = end.value
                return result

    def follow(self, after: str | None = None) -> Iterator[wire.StreamedEvent]:
        """Iterate over events as they happen; a lost connection resumes without a missed event.

        Args:
            after: `cursor` of the last event that you have; None to start now.

        Raises:
            LeagueError: The server rejects the token or the cursor, or was not reachable for five minutes.
        """
        reader = EventReader(after, time.monotonic)
        call = Call("GET", f"{PREFIX}/events")
        while True:
            error: LeagueError | None = None
            headers = self._headers | reader.headers
            try:
                with self._http.stream(call.method, call.path, headers=headers) as response:
                    if response.is_success:
                        reader.connect(response.headers)
                        for line in response.iter_lines():
                            event = reader.feed(line)
                            if event is not None:
                                yield event
                    else:
                        content = response.read()
                        error = reader.refusal(Received(response.url, response.status_code, response.headers, content))
            except httpx2.TransportError as lost:
                error = self._unreachable(call, lost)
            time.sleep(reader.pause_after(error))

    def _send(self, call: Call) -> Received:
        """Make a call; wait and repeat it while the server is busy."""
        if call.to_store:
            # A client of its own: the token in the headers of the other one is not for the store.
            with httpx2.Client(timeout=self._timeout_s) as store:
                return self._exchange(store, call)
        # The deadline covers all attempts of the call together.
        kind, until = request_class(call.method, call.path), self._patience.begin()
        file = file_of(call)
        start = 0 if file is None else file.tell()
        while True:
            self._patience.await_turn(kind, until)
            received = self._exchange(self._http, call)
            refusal = retriable_rejection(received)
            if refusal is None:
                return received
            self._patience.record(kind, refusal)
            if file is not None:
                file.seek(start)  # the rejected attempt may have consumed a part

    def _exchange(self, http: httpx2.Client, call: Call) -> Received:
        request, file = self._request(call), file_of(call)
        if file is not None:
            request["content"] = file
        if call.partial:
            return self._stream(http, call, request)
        try:
            response = http.request(call.method, call.path, **request)
        except httpx2.TransportError as error:
            raise self._unreachable(call, error) from error
        return Received(response.url, response.status_code, response.headers, response.content)

    def _stream(self, http: httpx2.Client, call: Call, request: dict[str, Any]) -> Received:
        url, status, headers, content = http.base_url, 0, httpx2.Headers(), bytearray()
        broken = None
        try:
            with http.stream(call.method, call.path, **request) as response:
                url, status, headers = response.url, response.status_code, response.headers
                for chunk in response.iter_bytes():
                    content += chunk
        except httpx2.TransportError as error:
            broken = self._unreachable(call, error)
        return Received(url, status, headers, bytes(content), broken)
