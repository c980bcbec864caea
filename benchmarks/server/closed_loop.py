"""Closed-loop load: prepared requests over several connections, each connection waits for its answers."""

import http.client
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

_HEADERS = {"Content-Type": "application/json"}
_SUCCESSES = (200, 201)  # POST /workers creates


def post_all(url: str, path: str, bodies: Sequence[bytes], connections: int) -> tuple[float, list[bytes]]:
    """Post every body once; return the seconds in all and the responses in order.

    Raises:
        SystemExit: A response was not 200 or 201.
    """
    shares = [range(first, len(bodies), connections) for first in range(connections)]

    def send(share: range) -> list[tuple[int, bytes]]:
        connection = http.client.HTTPConnection(urlsplit(url).netloc)
        answers = []
        for place in share:
            connection.request("POST", path, bodies[place], _HEADERS)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status not in _SUCCESSES:
                raise SystemExit(f"{path} answered {answer.status}: {content[:300]!r}")
            answers.append((place, content))
        connection.close()
        return answers

    start = time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        answers = [answer for part in pool.map(send, shares) for answer in part]
    seconds = time.perf_counter() - start
    return seconds, [content for _, content in sorted(answers)]
