"""Whatever the headers of a call say, the answer is no failure of the server."""

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from league_scene import Scene, safetensors, sha256

from league.client import LeagueClient

NAMES = (
    "Accept",
    "Authorization",
    "Content-Length",
    "Content-Type",
    "Host",
    "If-None-Match",
    "If-Range",
    "Last-Event-ID",
    "Origin",
    "Range",
    "Transfer-Encoding",
    "X-Forwarded-For",
    "X-Request-ID",
)
STARTS = ("", "Bearer ", "bytes=", "http://", "http://[", '"', "0.", "-1", "99999999999999999999")
VALUES = st.builds(
    "{}{}".format, st.sampled_from(STARTS), st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
)


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def http(serve: Callable[..., TestClient]) -> TestClient:
    client = serve(rate_per_s=1e6, rate_burst=10**9)
    client.app.state.league.ending.set()  # the stream of events ends at once
    Scene(LeagueClient(http=client)).publish(1)
    return client


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(headers=st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=3))
def test_odd_headers_are_answered(http: TestClient, headers: dict[str, str]) -> None:
    name = sha256(safetensors(1, signature="rps-1"))
    sent = {key: value.encode("latin-1") for key, value in headers.items()}
    for method, path in (
        ("GET", "/api/v1/players"),
        ("GET", f"/api/v1/checkpoints/{name}"),
        ("GET", "/api/v1/events"),
        ("POST", "/api/v1/workers"),
        ("PUT", f"/api/v1/checkpoints/{name}"),
        ("GET", "/readyz"),
        ("OPTIONS", "/docs"),
    ):
        answer = http.request(method, path, headers=sent)
        assert answer.status_code < 500, (method, path, answer.text)
