"""Database connections and transactions.

Every write transaction on SQLite starts with BEGIN IMMEDIATE, and each process serialises its writers. Otherwise a
transaction that reads before it writes would fail with "database is locked" under load. Reads see one snapshot.
"""

import re
import select
import sqlite3
import threading
import time
from collections.abc import Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import to_json
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry

from league.db.group_commit import GroupCommit, Work
from league.errors import ConfigurationError

T = TypeVar("T")
RequestT = TypeVar("RequestT")

_LEADERS = 3  # threads that lead group commits of coroutines
_BUSY_TIMEOUT_S = 30.0
_BUSY_PAUSE_S = 0.01
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_IDLE_S = 1.0  # idle time after which a connection to PostgreSQL is pinged
_SINCE_S = "league_idle_since_s"
_SQLITE_PRAGMAS = (
    "PRAGMA synchronous = FULL",  # an accepted result must survive a power failure, because its worker deletes it
    "PRAGMA foreign_keys = ON",
    "PRAGMA cache_size = -16000",  # 16 MB per connection
)


class Database:
    """Database of a league.

    Args:
        url: `sqlite:///FILE` or `postgresql://...`.
        connections: Maximum number of connections.

    Raises:
        ConfigurationError: The URL is not a valid database URL.
    """

    def __init__(self, url: str, connections: int = 20) -> None:
        self.url = _parse(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _sqlite_engine(self.url, connections) if self.sqlite else _postgres_engine(self.url, connections)
        # Writers of one process queue on a lock, because SQLite's busy handler sleeps between polls: p99 of a write
        # 52 instead of 407 ms.
        self._write_lock: AbstractContextManager[Any] = threading.Lock() if self.sqlite else nullcontext()
        # SQLite's BEGIN already reads one snapshot in WAL mode; PostgreSQL's default READ COMMITTED takes one per
        # statement.
        snapshot = {} if self.sqlite else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        bare = {} if self.sqlite else {"isolation_level": "AUTOCOMMIT"}
        self._readers = sessionmaker(self.engine.execution_options(**snapshot), expire_on_commit=False)
        self._autocommit_sessions = sessionmaker(self.engine.execution_options(**bare), expire_on_commit=False)
        self._writers = sessionmaker(self.engine.execution_options(league_write=True), expire_on_commit=False)
        self._brief_writers = sessionmaker(
            self.engine.execution_options(league_write=True, **bare), expire_on_commit=False
        )
        self._sqlite_writes = GroupCommit(self.write)
        self._shared: dict[Hashable, GroupCommit] = {}
        self._leaders = ThreadPoolExecutor(_LEADERS, "group-commit")

    def __str__(self) -> str:
        return self.url.set(drivername=self.url.get_backend_name()).render_as_string(hide_password=True)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a read transaction on one snapshot."""
        with self._readers() as session:
            yield session

    @contextmanager
    def autocommit_read(self) -> Iterator[Session]:
        """Open a session for reads that need no common snapshot.

        On PostgreSQL this saves the two round trips that begin and end a transaction.
        """
        with self._autocommit_sessions() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a write transaction that commits when the block ends and rolls back if it raises."""
        with self._write_lock, self._writers.begin() as session:
            yield session

    def group_commit(
        self, work: Work[RequestT, T], request: RequestT, kind: Hashable | None = None, *, briefly: bool = False
    ) -> T:
        """Process a request in a write transaction shared with concurrent requests; return its result after the commit.

        Requests that arrive during a transaction wait for the next one, and the work may run again. On SQLite, which
        has one writer, all requests share transactions. On PostgreSQL requests with the same work and kind do, and
        deadlocked transactions are retried.

        Args:
            work: Function of a session and requests, the same object at each call. With `one_by_one`, requests are
                closures.
            request: Argument of the work.
            kind: Key of work that takes the same locks in the same order; None never shares.
            briefly: Whether the work executes at most one statement per batch. On PostgreSQL it then runs in autocommit
                mode, which saves two round trips.
        """
        return self._writes(work, kind, briefly=briefly).run(work, request)

    async def group_commit_async(
        self, work: Work[RequestT, T], request: RequestT, kind: Hashable, *, briefly: bool = False
    ) -> T:
        """Process a request of a coroutine like `group_commit`."""
        return await self._writes(work, kind, briefly=briefly).run_async(work, request, self._leaders)

    def _writes(self, work: Work[Any, Any], kind: Hashable | None, *, briefly: bool) -> GroupCommit:
        if self.sqlite:
            return self._sqlite_writes
        opened, isolate = (self._brief_writers, nullcontext) if briefly else (self.write, Session.begin_nested)
        own = GroupCommit(opened, isolate)
        return own if kind is None else self._shared.setdefault((work, kind, briefly), own)

    @contextmanager
    def write_connection(self) -> Iterator[Connection]:
        """Open a write transaction without the ORM, for changes of the schema."""
        with self._write_lock, self.engine.execution_options(league_write=True).begin() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._leaders.shutdown()
        self.engine.dispose()


def is_missing(url: str) -> bool:
    """Return True if the URL names a SQLite file that does not exist.

    Raises:
        ConfigurationError: The URL is not a valid database URL.
    """
    parsed = _parse(url)
    return parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).exists()


def _parse(url: str) -> URL:
    remedy = "use sqlite:///FILE or postgresql://USER@HOST/NAME"
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigurationError(_without_password(url), "not a database URL", remedy) from error
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        raise ConfigurationError(_without_password(url), "the league supports SQLite files and PostgreSQL", remedy)
    return parsed.set(drivername="sqlite+pysqlite")


def _without_password(url: str) -> str:
    return re.sub(r":[^:@/]*@", ":***@", url)


def _sqlite_engine(url: URL, connections: int) -> Engine:
    Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    # The pool lends a connection to one thread at a time, which need not be the one that opened it.
    arguments = {"timeout": _BUSY_TIMEOUT_S, "check_same_thread": False}
    engine = create_engine(url, connect_args=arguments, pool_size=connections, max_overflow=0, json_serializer=_json)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the driver's own BEGIN would be deferred
    _switch_to_wal(connection)
    for pragma in _SQLITE_PRAGMAS:
        connection.execute(pragma).close()


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log, with retries because SQLite does not wait for other connections here."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
        except sqlite3.OperationalError as error:
            # Extended codes, such as SQLITE_BUSY_RECOVERY, have the primary one in their low byte.
            if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(_BUSY_PAUSE_S)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    write = connection.get_execution_options().get("league_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _postgres_engine(url: URL, connections: int) -> Engine:
    try:
        # LIFO: the last used connection has prepared statements and needs no ping
        engine = create_engine(url, pool_size=connections, max_overflow=0, pool_use_lifo=True, json_serializer=_json)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            url.render_as_string(hide_password=True),
            "PostgreSQL requires the psycopg driver",
            "install the extra: pip install 'echelon-league[postgres]'",
        ) from error
    _ping_idle_connections(engine)
    return engine


def _ping_idle_connections(engine: Engine) -> None:
    """Replace idle connections that were closed.

    A ping at each checkout would cost a round trip per transaction. A connection that the server closed has pending
    data; one that the network lost does not, so connections are also pinged after a long idle time.
    """

    def on_checkin(_connection: DBAPIConnection | None, entry: ConnectionPoolEntry) -> None:
        entry.info[_SINCE_S] = time.monotonic()

    def on_checkout(connection: DBAPIConnection, entry: ConnectionPoolEntry, _proxy: object) -> None:
        idle_s = time.monotonic() - entry.info.get(_SINCE_S, time.monotonic())
        try:
            if idle_s >= _IDLE_S or _has_pending_data(connection):
                engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error  # the pool then opens another connection

    event.listen(engine, "checkin", on_checkin)
    event.listen(engine, "checkout", on_checkout)


def _has_pending_data(connection: DBAPIConnection) -> bool:
    """Return True if PostgreSQL sent unsolicited data: a notice or the end of the connection."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))


def _json(value: object) -> str:
    return to_json(value).decode()
