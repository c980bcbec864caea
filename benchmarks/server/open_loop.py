"""Calls that arrive when they arrive, whether or not earlier ones are answered, each over a connection of its own.

A latency is counted from the moment the call was due, so that a stalled server is not flattered by callers who wait.
"""

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

_SUCCESSES = (200, 201)  # POST /workers creates
_BUSY = 503
_TRIES = 20


@dataclass
class Arrivals:
    """Calls to one server, and what came of them.

    Attributes:
        url: The server.
        latencies_s: Per kind of call, of every answered one that was not refused.
        failures: Answers that were no success and no refusal, connections that failed, and how often.
        refused: Per kind, how often the server was busy.
    """

    url: str
    latencies_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        address = urlsplit(self.url)
        self._netloc, self._host, self._port = address.netloc, address.hostname, address.port
        self._start_s = time.perf_counter()

    def begin(self) -> None:
        """Let time start at 0 now."""
        self._start_s = time.perf_counter()

    def now_s(self) -> float:
        """Return the seconds since the beginning."""
        return time.perf_counter() - self._start_s

    async def post(self, kind: str, due_s: float, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Post JSON when it is due, again while the server is busy; return the answer, or None where it failed."""
        answer = await self._ask(kind, due_s, "POST", path, json.dumps(body).encode())
        if answer is None:
            return None
        told: dict[str, Any] = json.loads(answer)
        return told

    async def get(self, kind: str, due_s: float, path: str) -> bytes | None:
        """Get what is there when it is due, again while the server is busy; return it, or None where that failed."""
        return await self._ask(kind, due_s, "GET", path, b"")

    async def _ask(self, kind: str, due_s: float, method: str, path: str, content: bytes) -> bytes | None:
        for _ in range(_TRIES):
            await asyncio.sleep(due_s - self.now_s())
            try:
                status, headers, answer = await self._call(method, path, content)
            except OSError as error:
                self.failures[f"{kind}: {error!r}"] += 1
                return None
            if status in _SUCCESSES:
                self.latencies_s[kind].append(self.now_s() - due_s)
                return answer
            if status != _BUSY or b"retry-after" not in headers:
                self.failures[f"{kind} {status}: {answer[:200]!r}"] += 1
                return None
            self.refused[kind] += 1
            due_s = self.now_s() + int(headers[b"retry-after"])
        self.failures[f"{kind}: refused {_TRIES} times"] += 1
        return None

    def quantiles(self, kind: str) -> str:
        """Write the latencies that half and 99 % of the calls stay under, in milliseconds."""
        half, most = 1_000 * np.quantile(self.latencies_s[kind], (0.5, 0.99))
        return f"{half:.0f} / {most:.0f}"

    async def _call(self, method: str, path: str, content: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=2**20)
        try:
            head = f"{method} {path} HTTP/1.1\r\nHost: {self._netloc}\r\nConnection: close\r\n"
            kind = f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
            writer.write(f"{head}{kind}".encode() + content)
            top, _, rest = (await reader.read(-1)).partition(b"\r\n\r\n")
        finally:
            writer.close()
        if not top:
            raise ConnectionError("ended without an answer")
        first, *lines = top.split(b"\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines)}
        return int(first.split()[1]), headers, rest
