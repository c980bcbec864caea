"""Testbed of a server benchmark: a fresh database, and server processes that listen on loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.server import databases

_START_S = 180.0  # an idle machine starts a server in 5 s
_END_S = 180.0  # an idle machine stops one in 2 s


@dataclass(frozen=True)
class Row:
    """One line of the table: the work, its measured value, the aim, and the value of a reference in the same run."""

    work: str
    measured: str
    aim: str = ""
    reference: str = ""


@dataclass(frozen=True)
class Server:
    """A running server process."""

    url: str
    database_url: str
    pid: int


@dataclass(frozen=True)
class Testbed:
    """One database server and a folder for all files of a measurement.

    Attributes:
        backend: `sqlite` or `postgresql`.
        server_url: URL of the PostgreSQL server; empty for SQLite.
        folder: Deleted afterwards.
        core: Processor core that each server is bound to; None for all.
    """

    backend: str
    server_url: str
    folder: Path
    core: int | None = None

    def database(self) -> str:
        """Create an empty database and return its URL."""
        return databases.empty(self.server_url, self.folder)

    @contextmanager
    def league(self, database_url: str | None = None, **settings: object) -> Iterator[Server]:
        """Run `league serve` in its own process, on a new database unless one is given.

        Args:
            database_url: An existing database.
            settings: Server settings, passed as LEAGUE_* variables.
        """
        url = database_url or self.database()
        changed = {f"LEAGUE_{name.upper()}": str(value) for name, value in settings.items()}
        home = self.folder / f"home-{free_port()}"
        command = ("-m", "league", "serve", "--home", str(home), "--database-url", url)
        with self.process(command, url, changed) as server:
            yield server

    @contextmanager
    def process(
        self, command: tuple[str, ...], database_url: str, environment: dict[str, str] | None = None
    ) -> Iterator[Server]:
        """Run a Python command with `--port`, and wait until it listens."""
        port = free_port()
        variables = {name: value for name, value in os.environ.items() if not name.startswith("LEAGUE_")}
        with (self.folder / "servers.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command, "--port", str(port)],
                env=variables | (environment or {}), stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            _wait_until_open(process, port, self.folder / "servers.log")
            if self.core is not None:  # before the first call, because later threads inherit it
                os.sched_setaffinity(process.pid, {self.core})
            yield Server(f"http://127.0.0.1:{port}", database_url, process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_END_S)


def free_port() -> int:
    """Return an unused TCP port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_until_open(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the server did not start: {log.read_text()[-1000:]}") from None
            time.sleep(0.05)
        else:
            return
