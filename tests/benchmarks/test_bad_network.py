"""The proxy that fails a share of the calls."""

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from benchmarks.bad_network import FAULTS, proxied


class Echo(BaseHTTPRequestHandler):
    """Answers with what was sent, and counts the calls."""

    calls = 0

    def do_POST(self) -> None:
        type(self).calls += 1
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    Echo.calls = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield "127.0.0.1", listening.server_port
        listening.shutdown()
        thread.join()


def send(http: httpx2.Client, url: str, number: int) -> str:
    """Return what became of a call, as its caller sees it."""
    body = f"{number}".encode() * 1000
    try:
        answer = http.post(url, content=body)
    except httpx2.TimeoutException:
        return "silence"
    except httpx2.TransportError:
        return "reset"
    assert answer.status_code != 200 or answer.content == body
    return f"{answer.status_code}"


def test_a_clean_network_passes_every_call_on(server: tuple[str, int]) -> None:
    with proxied(server, seed=0) as (proxy, url), httpx2.Client(timeout=5.0) as http:
        assert {send(http, url, number) for number in range(20)} == {"200"}
        assert proxy.calls == {"passed": 20}


def test_a_bad_network_fails_calls_in_every_way_as_the_seed_says(server: tuple[str, int]) -> None:
    runs = []
    for _ in range(2):
        before = Echo.calls
        with proxied(server, seed=3) as (proxy, url), httpx2.Client(timeout=1.0) as http:
            proxy.share = 0.5
            runs.append([send(http, url, number) for number in range(40)])
            calls, seen = proxy.calls, Counter(runs[-1])
        assert Echo.calls - before == calls["passed"] + calls["reset after"], "these reached the server"
        assert seen == {
            "200": calls["passed"],
            "502": calls["error"],
            "silence": calls["silence"],
            "reset": calls["reset before"] + calls["reset after"],
        }
        assert all(calls[fault] > 0 for fault in FAULTS)
    assert runs[0] == runs[1]
