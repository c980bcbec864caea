"""The proxy's own files, with a server behind it that tells what reached it."""

import json
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from composition import ROOT
from deployed import Listener, configure, proxied
from tools import tool

from league.cli.workers import RATING_PATIENCE_S

LOOKS_NAMES_UP_AGAIN, SPEAKS_HTTP2 = (1, 27, 3), (1, 25, 1)
"""Versions of nginx that a part of the files needs."""


class Echo(BaseHTTPRequestHandler):
    """Answers with the request's path and headers."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        said = {"path": self.path, **{name.lower(): value for name, value in self.headers.items()}}
        content = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short path: addresses of sockets in it have at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="proxy-") as name:
        yield Path(name)


def nginx_of(version: tuple[int, ...]) -> str:
    """Return the program, or skip the test where it is older."""
    nginx = tool("nginx", "install it to test the proxy, as `apt-get install nginx` does")
    said = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=True).stderr
    if tuple(int(part) for part in said.rpartition("/")[2].split()[0].split(".")) < version:
        pytest.skip(f"this needs nginx {'.'.join(map(str, version))}, as its image has")
    return nginx


def tls(folder: Path) -> dict[str, str]:
    """Make a certificate for this machine; return what stands for the places that the template for TLS names."""
    openssl = tool("openssl", "install it to test TLS")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return {
        "/run/secrets/tls_certificate": str(certificate),
        "/run/secrets/tls_key": str(key),
        "listen 8080": f"listen unix:{folder}/http",
    }


def test_proxy_forwards_client_address_and_host(echo: str, folder: Path) -> None:
    lie = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "other.example.org"}
    lie |= {"X-Forwarded-Port": "1", "X-Request-ID": "of-the-test"}
    nginx = nginx_of((1, 15, 3))
    paths = ("/api/v1/players?limit=1", "/live", "/api/v1/events", "/league-checkpoints/aa?X-Amz-Signature=0")
    with (
        Listener.take() as public,
        Listener.take() as health,
        proxied(nginx, folder, "plain.conf.template", [echo], echo, public, health),
    ):
        for path in paths:
            said = httpx2.get(f"{public.url}{path}", headers={**lie, "Host": "league.example.org:8000"}).json()
            assert said["path"] == path
            assert said["host"] == "league.example.org:8000"
            assert said["x-forwarded-for"] == "127.0.0.1"
            assert said["x-forwarded-proto"] == "http"
            assert said["x-request-id"] == "of-the-test"
            assert not said.keys() & {"connection", "x-forwarded-host", "x-forwarded-port"}
        assert httpx2.get(f"{health.url}/readyz").json()["path"] == "/readyz"
        assert httpx2.get(f"{health.url}/api/v1/players").status_code == 404


def test_a_server_that_is_gone_is_not_noticed(echo: str, folder: Path) -> None:
    nginx = nginx_of((1, 15, 3))
    with (
        socket.socket() as gone,
        Listener.take() as public,
        Listener.take() as health,
    ):
        gone.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        servers = [f"127.0.0.1:{gone.getsockname()[1]}", echo]
        with proxied(nginx, folder, "plain.conf.template", servers, echo, public, health):
            assert [httpx2.get(public.url).status_code for _ in range(5)] == [200] * 5
    assert (
        "connect() failed (111: Connection refused) while connecting to upstream" in (folder / "error.log").read_text()
    )


def test_tls_ends_at_the_proxy(echo: str, folder: Path) -> None:
    nginx = nginx_of(SPEAKS_HTTP2)
    places = tls(folder)
    trusted = ssl.create_default_context(cafile=places["/run/secrets/tls_certificate"])
    with (
        Listener.take() as public,
        Listener.take() as health,
        proxied(nginx, folder, "tls.conf.template", [echo], echo, public, health, **places),
        httpx2.Client(transport=httpx2.HTTPTransport(uds=f"{folder}/http")) as unencrypted,
    ):
        address = public.address
        answer = httpx2.get(f"https://{address}/", verify=trusted)
        led = unencrypted.get("http://127.0.0.1/players/7?x=1")
    assert answer.json()["x-forwarded-proto"] == "https"
    assert answer.json()["host"] == address
    assert "max-age" in answer.headers["Strict-Transport-Security"]
    assert (led.status_code, led.headers["Location"]) == (
        308,
        f"https://127.0.0.1:{address}/players/7?x=1",
    )  # a port, where it is no test


@pytest.mark.parametrize("template", ["plain.conf.template", "tls.conf.template"])
def test_proxy_configuration_is_valid(template: str, folder: Path) -> None:
    nginx = nginx_of(LOOKS_NAMES_UP_AGAIN)
    places = tls(folder) if template.startswith("tls") else {}
    sockets = f"unix:{folder}/public", f"unix:{folder}/health"
    if places:  # leads on to the port
        places |= {"https://$host:${PUBLIC_PORT}": "https://$host:443"}
    configure(folder, template, ["localhost:8000 resolve"], "localhost:8333 resolve", *sockets, **places)
    checked = subprocess.run([nginx, "-t", "-c", folder / "nginx.conf"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "[warn]" not in checked.stderr


def test_the_proxy_waits_as_long_as_commands_do() -> None:
    assert f"proxy_read_timeout {RATING_PATIENCE_S:g}s;" in (ROOT / "deploy" / "proxy" / "nginx.conf").read_text()
