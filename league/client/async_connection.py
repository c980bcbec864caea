"""Async HTTP connection to a league server, for asyncio."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import closing
from types import TracebackType
from typing import IO, Any, ClassVar, Self, TypeVar

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

_CHUNK_BYTES = 2**18

T = TypeVar("T")


class AsyncConnection(Endpoint):
    """Runs operations with awaited calls; see `AsyncLeagueClient`."""

    is_async: ClassVar = True
    _http: httpx2.AsyncClient

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        http: httpx2.AsyncClient | None = None,
        timeout_s: float = 30.0,
        patience: RetryGate | None = None,
    ) -> None:
        super().__init__(url, token, http, timeout_s, patience)
        self._http = http or httpx2.AsyncClient(base_url=str(self._address), timeout=timeout_s, follow_redirects=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the HTTP client unless the caller owns it."""
        if self._owned:
            await self._http.aclose()

    async def run(self, steps: Steps[T]) -> T:
        """Make the calls of an operation and return its result."""
        with closing(steps):
            try:
                call = next(steps)
                while True:
                    call = steps.send(await self._send(call))
            except StopIteration as end:
                result: T = end.value
                return result

    async def follow(self, after: str | None = None) -> AsyncIterator[wire.StreamedEvent]:
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
                async with self._http.stream(call.method, call.path, headers=headers) as response:
                    if response.is_success:
                        reader.connect(response.headers)
                        async for line in response.aiter_lines():
                            event = reader.feed(line)
                            if event is not None:
                                yield event
                    else:
                        content = await response.aread()
                        error = reader.refusal(Received(response.url, response.status_code, response.headers, content))
            except httpx2.TransportError as lost:
                error = self._unreachable(call, lost)
            await asyncio.sleep(reader.pause_after(error))

    async def _send(self, call: Call) -> Received:
        """Make a call; wait and repeat it while the server is busy."""
        if call.to_store:
            async with httpx2.AsyncClient(timeout=self._timeout_s) as store:
                return await self._exchange(store, call)
        # The deadline covers all attempts of the call together.
        kind, until = request_class(call.method, call.path), self._patience.begin()
        file = file_of(call)
        start = 0 if file is None else file.tell()
        while True:
            await asyncio.sleep(self._patience.wait_s(kind, until))
            received = await self._exchange(self._http, call)
            refusal = retriable_rejection(received)
            if refusal is None:
                return received
            self._patience.record(kind, refusal)
            if file is not None:
                file.seek(start)  # the rejected attempt may have consumed a part

    async def _exchange(self, http: httpx2.AsyncClient, call: Call) -> Received:
        request, file = self._request(call), file_of(call)
        if file is not None:
            request["content"] = _chunks(file)
        if call.partial:
            return await self._stream(http, call, request)
        try:
            response = await http.request(call.method, call.path, **request)
        except httpx2.TransportError as error:
            raise self._unreachable(call, error) from error
        return Received(response.url, response.status_code, response.headers, response.content)

    async def _stream(self, http: httpx2.AsyncClient, call: Call, request: dict[str, Any]) -> Received:
        url, status, headers, content = http.base_url, 0, httpx2.Headers(), bytearray()
        broken = None
        try:
            async with http.stream(call.method, call.path, **request) as response:
                url, status, headers = response.url, response.status_code, response.headers
                async for chunk in response.aiter_bytes():
                    content += chunk
        except httpx2.TransportError as error:
            broken = self._unreachable(call, error)
        return Received(url, status, headers, bytes(content), broken)


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Read a file in a thread, so that a slow disk does not block the event loop."""
    while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
        yield chunk
