"""Where a row is measured: a database of its own, and servers over it, each a process that listens on loopback."""

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

_START_S = 180.0  # a server starts in 5 s, on a machine that has time for it
_END_S = 180.0  # it ends in 2 s; nothing is lost by waiting where a machine has no time


@dataclass(frozen=True)
class Row:
    """One line of the table: the work, its measured value, the aim, and the value of a reference in the same run."""

    work: str
    measured: str
    aim: str = ""
    reference: str = ""


@dataclass(frozen=True)
class Server:
    """A process that serves."""

    url: str
    database_url: str
    pid: int


@dataclass(frozen=True)
class Stage:
    """One database server and a folder for whatever a row writes.

    Attributes:
        backend: `sqlite` or `postgresql`.
        server_url: PostgreSQL's address; empty for SQLite.
        folder: Emptied afterwards.
        core: Of the machine that each server keeps to; any where None.
    """

    backend: str
    server_url: str
    folder: Path
    core: int | None = None

    def database(self) -> str:
        """Make an empty database and return its URL."""
        return databases.empty(self.server_url, self.folder)

    @contextmanager
    def league(self, database_url: str | None = None, **settings: object) -> Iterator[Server]:
        """Run `league serve` in a process of its own, over a new database unless one is given.

        Args:
            database_url: Where its tables are.
            settings: As in `league.settings.Settings`; they travel as LEAGUE_* variables.
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
        """Run a Python command that takes `--port` and listens there."""
        port = free_port()
        variables = {name: value for name, value in os.environ.items() if not name.startswith("LEAGUE_")}
        with (self.folder / "servers.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command, "--port", str(port)],
                env=variables | (environment or {}), stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            _wait_until_open(process, port, self.folder / "servers.log")
            if self.core is not None:  # threads begin with the first call, and where the first one is
                os.sched_setaffinity(process.pid, {self.core})
            yield Server(f"http://127.0.0.1:{port}", database_url, process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_END_S)


def free_port() -> int:
    """Name a port that nobody listens on."""
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
