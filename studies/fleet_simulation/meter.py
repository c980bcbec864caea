"""What a server and its database have used by now: processor time, memory, bytes, writes to the disk."""

import os
import sqlite3
import struct
from dataclasses import dataclass, fields
from pathlib import Path

from sqlalchemy import Connection, create_engine, make_url, text

from studies.fleet_simulation.front import Front

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CHANGES = struct.Struct("=8xI")  # of a wal-index, see sqlite.org/walformat.html: transactions that changed something


@dataclass(frozen=True)
class Used:
    """Since the beginning, or between two readings.

    Attributes:
        api_s: CPU seconds of the API processes.
        books_s: Of the processes that close periods.
        database_s: Of the database's processes; 0 where it has none, or none on this machine.
        size_bytes: Of the database, without its write-ahead log.
        written_bytes: Written ahead by PostgreSQL, or to the disk by the server's processes on SQLite.
        commits: Times that the log was brought to the disk (PostgreSQL), or transactions that wrote (SQLite).
        proxy_s: Of the proxy; 0 where there is none.
    """

    api_s: float
    books_s: float
    database_s: float
    size_bytes: int
    written_bytes: int
    commits: int
    proxy_s: float = 0.0

    def __sub__(self, before: "Used") -> "Used":
        return Used(*(getattr(self, each.name) - getattr(before, each.name) for each in fields(self)))


def read(front: Front) -> Used:
    """Read everything once."""
    pids = [server.pid for server in front.servers]
    books = [child for pid in pids for child in _children(pid)]
    api_s, books_s = sum(map(cpu_s, pids)), sum(map(cpu_s, books))
    database_url = front.servers[0].database_url
    if database_url.startswith("sqlite"):
        file = Path(str(make_url(database_url).database))
        written = sum(map(_written_bytes, (*pids, *books)))
        return Used(api_s, books_s, 0.0, _sqlite_bytes(file), written, _sqlite_commits(file))
    return Used(api_s, books_s, *_postgres(database_url), proxy_s=_proxy_s(front.proxy_pid))


def resident_bytes(front: Front) -> tuple[int, int]:
    """Return the memory of an API process, and of its books, on average."""
    pids = [server.pid for server in front.servers]
    api, books = sum(map(_resident, pids)), sum(_resident(child) for pid in pids for child in _children(pid))
    return api // len(pids), books // len(pids)


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and of those children that it has seen end."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in after_name[11:15]) / _TICKS


def _proxy_s(pid: int | None) -> float:
    return 0.0 if pid is None else sum(map(cpu_s, (pid, *_children(pid))))


def _children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def _written_bytes(pid: int) -> int:
    lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(lines["write_bytes"])


def _sqlite_bytes(file: Path) -> int:
    connection = sqlite3.connect(file)
    try:
        (pages,), (size,) = (connection.execute(f"PRAGMA {what}").fetchone() for what in ("page_count", "page_size"))
    finally:
        connection.close()
    return int(pages) * int(size)


def _sqlite_commits(file: Path) -> int:
    with Path(f"{file}-shm").open("rb") as index:
        (changes,) = _CHANGES.unpack(index.read(_CHANGES.size))
    return int(changes)


def _postgres(database_url: str) -> tuple[float, int, int, int]:
    """Return CPU seconds, size, bytes written ahead, and times that they were brought to the disk."""
    engine = create_engine(make_url(database_url).set(drivername="postgresql+psycopg"))
    try:
        with engine.connect() as connection:
            used = _cluster_s(connection)
            size, written = connection.execute(
                text("SELECT pg_database_size(current_database()), pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
            ).one()
            return used, int(size), int(written), _syncs(connection)
    finally:
        engine.dispose()


def _cluster_s(connection: Connection) -> float:
    """Return the CPU seconds of all processes of a database server; 0 where they are not on this machine."""
    directory = connection.scalar(text("SHOW data_directory"))
    backend = int(connection.scalar(text("SELECT pg_backend_pid()")) or 0)
    if not Path(f"/proc/{backend}/cwd").exists() or Path(f"/proc/{backend}/cwd").resolve() != Path(str(directory)):
        return 0.0
    head = int(Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1])
    return cpu_s(head) + sum(map(cpu_s, _children(head)))


def _syncs(connection: Connection) -> int:
    """Return how often the write-ahead log was brought to the disk; which view tells it depends on the version."""
    version = int(connection.scalar(text("SHOW server_version_num")) or 0)
    told = "sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'" if version >= 180_000 else "wal_sync FROM pg_stat_wal"
    return int(connection.scalar(text(f"SELECT {told}")) or 0)
