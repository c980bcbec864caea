"""An S3-compatible service of a test's own, in this process, on loopback; it counts what goes through it."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any, Literal

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

KEY, SECRET, REGION = "league-key", "league-secret", "us-east-1"

COPY_HASH = "HTTP_X_AMZ_CHECKSUM_ALGORITHM"

Environ = dict[str, Any]
StartResponse = Callable[..., Any]

_numbers = count()


@dataclass
class Service:
    """A running service.

    Attributes:
        url: Where it listens.
        to_libraries: Bytes it sent to callers that are AWS libraries, such as a league server.
        calls: Method, path and query of every call.
        failing: While set, status and error code that every call is answered with.
        hashing: Whether it computes checksums of what it copies, refuses to, or takes no notice.
    """

    url: str = ""
    to_libraries: int = 0
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    failing: tuple[str, str] | None = None
    hashing: Literal["yes", "refuses", "no"] = "yes"

    @cached_property
    def client(self) -> Any:
        """A caller of this service that is none of the league's."""
        return boto3.client(
            "s3", endpoint_url=self.url, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name=REGION
        )

    def bucket(self) -> str:
        """Make a fresh bucket and return its name."""
        name = f"league-{next(_numbers)}"
        self.client.create_bucket(Bucket=name)
        return name


class _Quiet(WSGIRequestHandler):
    def log(self, *_arguments: object) -> None:
        pass


@contextmanager
def running() -> Iterator[Service]:
    """Serve until the block ends."""
    service = Service()
    backends = DomainDispatcherApplication(create_backend_app)

    def application(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        service.calls.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"]))
        if service.failing is not None:
            return _refuse(start, *service.failing)
        if service.hashing == "refuses" and COPY_HASH in environ:
            return _refuse(start, "501 Not Implemented", "NotImplemented")
        if service.hashing == "no":
            environ.pop(COPY_HASH, None)
        answer = backends(environ, start)
        return _counted(service, answer) if "oto" in environ.get("HTTP_USER_AGENT", "") else answer

    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_Quiet)
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield service
    server.shutdown()
    thread.join()
    server.server_close()


def _counted(service: Service, answer: Iterable[bytes]) -> Iterator[bytes]:
    for piece in answer:
        service.to_libraries += len(piece)
        yield piece


def _refuse(start: StartResponse, status: str, code: str) -> Iterable[bytes]:
    start(status, [("Content-Type", "application/xml")])
    return [f"<Error><Code>{code}</Code><Message>as the test wants it</Message></Error>".encode()]
