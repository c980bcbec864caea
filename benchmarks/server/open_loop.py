"""Open-loop load: calls start at their scheduled times, each over its own connection, even if earlier ones are pending.

Latency counts from the scheduled time, so that a stalled server does not slow down its own load (coordinated omission).
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
_ATTEMPTS = 20


@dataclass
class OpenLoopLoad:
    """Calls to one server, and their latencies and failures.

    Attributes:
        url: The server.
        latencies_s: Of each successful call, by kind.
        failures: Number of other error responses and failed connections, by reason.
        rejected: Number of 503 responses with Retry-After, by kind.
    """

    url: str
    latencies_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        address = urlsplit(self.url)
        self._netloc, self._host, self._port = address.netloc, address.hostname, address.port
        self._start_s = time.perf_counter()

    def start(self) -> None:
        """Set the time to 0."""
        self._start_s = time.perf_counter()

    def now_s(self) -> float:
        """Return the seconds since `start`."""
        return time.perf_counter() - self._start_s

    async def post(self, kind: str, due_s: float, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Post JSON at the scheduled time, retry after 503; return the response, or None if it failed."""
        content = await self._request(kind, due_s, "POST", path, json.dumps(body).encode())
        if content is None:
            return None
        answer: dict[str, Any] = json.loads(content)
        return answer

    async def get(self, kind: str, due_s: float, path: str) -> bytes | None:
        """Get a path at the scheduled time, retry after 503; return the response, or None if it failed."""
        return await self._request(kind, due_s, "GET", path, b"")

    async def _request(self, kind: str, due_s: float, method: str, path: str, content: bytes) -> bytes | None:
        for _ in range(_ATTEMPTS):
            await asyncio.sleep(due_s - self.now_s())
            try:
                status, headers, answer = await self._send(method, path, content)
            except OSError as error:
                self.failures[f"{kind}: {error!r}"] += 1
                return None
            if status in _SUCCESSES:
                self.latencies_s[kind].append(self.now_s() - due_s)
                return answer
            if status != _BUSY or b"retry-after" not in headers:
                self.failures[f"{kind} {status}: {answer[:200]!r}"] += 1
                return None
            self.rejected[kind] += 1
            due_s = self.now_s() + int(headers[b"retry-after"])
        self.failures[f"{kind}: rejected {_ATTEMPTS} times"] += 1
        return None

    def quantiles(self, kind: str) -> str:
        """Return the median and the 99th percentile of the latencies in milliseconds, as text."""
        p50, p99 = 1_000 * np.quantile(self.latencies_s[kind], (0.5, 0.99))
        return f"{p50:.0f} / {p99:.0f}"

    async def _send(self, method: str, path: str, content: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
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
