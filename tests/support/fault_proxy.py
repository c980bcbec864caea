"""A network that a test can break: connections to one of several servers, passed on, slowed, held up or cut."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Literal

PIECE_BYTES = 2**16

Address = tuple[str, int]
Weather = Literal["fair", "cut", "held", "deaf"]


class Proxy:
    """Passes TCP connections on, and breaks them as it is told; a change holds when the call returns.

    Args:
        servers: Where to, at any time: each connection to the next one, or to another where that does not answer.
        loop: Runs in a thread of its own.
        host: Where to listen.

    Attributes:
        url: Where it listens.
    """

    def __init__(self, servers: Callable[[], Sequence[Address]], loop: asyncio.AbstractEventLoop, host: str) -> None:
        self._servers, self._loop = servers, loop
        self._turns = count()
        self._weather: Weather = "fair"
        self._delay_s = 0.0
        self._open: set[asyncio.StreamWriter] = set()
        self._fair = asyncio.Event()
        self._fair.set()
        self._listener = self._do(asyncio.start_server(self._take, host, 0))
        self.url = f"http://{host}:{self._listener.sockets[0].getsockname()[1]}"

    def fair(self) -> None:
        """Pass everything on, at once, also what was held up."""
        self._do(self._become("fair"))

    def cut(self) -> None:
        """Reset every connection, and every new one."""
        self._do(self._become("cut"))

    def hold(self) -> None:
        """Take what comes and pass nothing on, as a network that loses every packet, until it is fair again."""
        self._do(self._become("held"))

    def deafen(self) -> None:
        """Let calls through and reset their connections at the first byte of the answer."""
        self._do(self._become("deaf"))

    def delay(self, seconds: float) -> None:
        """Pass every piece on so much later, each way."""
        self._do(self._become("fair", seconds))

    def close(self) -> None:
        """Listen no more, and cut what there is."""
        self._do(self._become("cut"))
        self._do(self._end())

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _become(self, weather: Weather, delay_s: float = 0.0) -> None:
        self._weather, self._delay_s = weather, delay_s
        if weather == "held":
            self._fair.clear()
        else:
            self._fair.set()
        if weather == "cut":
            for writer in self._open:
                writer.transport.abort()

    async def _end(self) -> None:
        self._listener.close()
        while self._open:
            await asyncio.sleep(0.001)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on until either side ends it."""
        self._open.add(writer)
        try:
            found = None if self._weather == "cut" else await self._connect()
            if found is None:
                return
            server, calls = found
            self._open.add(calls)
            ways = [
                asyncio.ensure_future(way)
                for way in (self._pass(reader, calls, answers=False), self._pass(server, writer, answers=True))
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            calls.transport.abort()
            self._open.discard(calls)
        finally:
            writer.transport.abort()
            self._open.discard(writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        servers = list(self._servers())
        first = next(self._turns)
        for place in range(len(servers)):
            try:
                return await asyncio.open_connection(*servers[(first + place) % len(servers)])
            except OSError:
                continue
        return None

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool) -> None:
        while piece := await source.read(PIECE_BYTES):
            await asyncio.sleep(self._delay_s)
            await self._fair.wait()
            if answers and self._weather == "deaf":
                return
            sink.write(piece)
            await sink.drain()
        await sink.drain()


@contextmanager
def passing_on(servers: Callable[[], Sequence[Address]], host: str = "127.0.0.1") -> Iterator[Proxy]:
    """Pass connections on until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    proxy = Proxy(servers, loop, host)
    try:
        yield proxy
    finally:
        proxy.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
