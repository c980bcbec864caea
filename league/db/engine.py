"""Connections and transactions.

Every write transaction on SQLite opens with BEGIN IMMEDIATE, and one process queues its writers: a transaction that
reads first and writes later would fail with "database is locked" under load. Reads see one consistent state.
"""

import re
import select
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic_core import to_json
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DisconnectionError, OperationalError
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry

from league.db.group_commit import SharedWrites, Work, one_by_one
from league.errors import ConfigurationError

T = TypeVar("T")
RequestT = TypeVar("RequestT")

_BUSY_TIMEOUT_S = 30.0
_BUSY_PAUSE_S = 0.01
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DEADLOCK = "40P01"  # PostgreSQL's code for a transaction that it ended because it and others waited for each other
_DEADLOCKS = 3  # in a row, that a caller does not hear of
_IDLE_S = 1.0  # after which a connection to PostgreSQL may have ended unnoticed
_SINCE_S = "league_idle_since_s"
_SQLITE_PRAGMAS = (
    "PRAGMA synchronous = FULL",  # an accepted result outlives a power failure: its worker forgets it
    "PRAGMA foreign_keys = ON",
    "PRAGMA cache_size = -16000",  # 16 MB a connection
)


class Database:
    """One league's relational store.

    Args:
        url: `sqlite:///FILE` or `postgresql://...`.
        connections: Most connections held at once.

    Raises:
        ConfigurationError: The URL names no database that the league can use.
    """

    def __init__(self, url: str, connections: int = 20) -> None:
        self.url = _parse(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _sqlite_engine(self.url, connections) if self.sqlite else _postgres_engine(self.url, connections)
        self._turn: AbstractContextManager[Any] = threading.Lock() if self.sqlite else nullcontext()
        snapshot = {} if self.sqlite else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        bare = {} if self.sqlite else {"isolation_level": "AUTOCOMMIT"}
        self._readers = sessionmaker(self.engine.execution_options(**snapshot), expire_on_commit=False)
        self._autocommit_sessions = sessionmaker(self.engine.execution_options(**bare), expire_on_commit=False)
        self._writers = sessionmaker(self.engine.execution_options(league_write=True), expire_on_commit=False)
        self._staters = sessionmaker(self.engine.execution_options(league_write=True, **bare), expire_on_commit=False)
        self._everything: SharedWrites[Callable[[Session], Any]] = SharedWrites(self.write, one_by_one)
        self._shared: dict[Hashable, SharedWrites[Any]] = {}

    def __str__(self) -> str:
        return self.url.set(drivername=self.url.get_backend_name()).render_as_string(hide_password=True)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a read transaction over one consistent state."""
        with self._readers() as session:
            yield session

    @contextmanager
    def autocommit_read(self) -> Iterator[Session]:
        """Open a session for reads that need not agree with one another: each sees what is committed then.

        On PostgreSQL it saves the two trips that begin and end a transaction.
        """
        with self._autocommit_sessions() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a write transaction; committed when the block ends, rolled back when it raises."""
        with self._turn, self._writers.begin() as session:
            yield session

    def group_commit(
        self, work: Work[RequestT, T], request: RequestT, kind: Hashable | None = None, *, briefly: bool = False
    ) -> T:
        """Do some work in a write transaction; return what it answered, once that is committed.

        What arrives while a write is under way that it can share waits for the next one, and the work may be done
        again. On SQLite, which has one writer, everything shares. On PostgreSQL requests for the same work of the same
        kind do; of transactions that wait for each other's rows it ends one, which is done again.

        Args:
            work: What to do: a function, not made anew for each call. With `one_by_one` requests are what to do.
            request: What it is to do it with.
            kind: What takes the same locks in the same order, however much of it there is; None shares with nothing.
            briefly: The work takes one statement at most, however many requests there are. PostgreSQL makes that a
                transaction by itself, which saves the trips that begin and end one.
        """
        if self.sqlite:
            return cast(T, self._everything.run(lambda session: work(session, [request])[0]))
        opened, apart = (self._staters, nullcontext) if briefly else (self.write, Session.begin_nested)
        shared: SharedWrites[Any] = SharedWrites(opened, work, apart)
        if kind is not None:
            shared = self._shared.setdefault((work, kind, briefly), shared)
        return cast(T, _despite_deadlocks(lambda: shared.run(request)))

    @contextmanager
    def write_connection(self) -> Iterator[Connection]:
        """Open a write transaction without the object mapper, for changes to the schema."""
        with self._turn, self.engine.execution_options(league_write=True).begin() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _despite_deadlocks(write: Callable[[], T]) -> T:
    """Write again where PostgreSQL ended the transaction because it and others waited for each other."""
    for _ in range(_DEADLOCKS):
        try:
            return write()
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != _DEADLOCK:
                raise
    return write()


def is_missing(url: str) -> bool:
    """Say whether a database is a file that is not there; whether a server has one, only the server knows.

    Raises:
        ConfigurationError: The URL names no database that the league can use.
    """
    parsed = _parse(url)
    return parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).exists()


def _parse(url: str) -> URL:
    way_out = "use sqlite:///FILE or postgresql://USER@HOST/NAME"
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigurationError(_without_password(url), "not a database URL", way_out) from error
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        raise ConfigurationError(
            _without_password(url), "the league keeps its tables in a SQLite file or in PostgreSQL", way_out
        )
    return parsed.set(drivername="sqlite+pysqlite")


def _without_password(url: str) -> str:
    return re.sub(r":[^:@/]*@", ":***@", url)


def _sqlite_engine(url: URL, connections: int) -> Engine:
    Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    arguments = {"timeout": _BUSY_TIMEOUT_S, "check_same_thread": False}
    engine = create_engine(url, connect_args=arguments, pool_size=connections, max_overflow=0, json_serializer=_json)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the driver's own BEGIN would be a deferred one
    _switch_to_wal(connection)
    for pragma in _SQLITE_PRAGMAS:
        connection.execute(pragma).close()


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Keep a write-ahead log. SQLite does not wait for others while it switches a file over: wait here."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
        except sqlite3.OperationalError as error:
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
        # the connection that was used last comes first: it knows the statements, and need not be asked whether it lives
        engine = create_engine(url, pool_size=connections, max_overflow=0, pool_use_lifo=True, json_serializer=_json)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            url.render_as_string(hide_password=True),
            "PostgreSQL needs the psycopg driver",
            "install the extra: pip install 'echelon-league[postgres]'",
        ) from error
    _ask_idle_connections(engine)
    return engine


def _ask_idle_connections(engine: Engine) -> None:
    """Replace connections that ended while nobody used them.

    To ask each time would be one more trip a transaction. One that the server ended says so by itself; one that the
    network lost does not, and is asked once it has been idle for long.
    """

    def note(_connection: DBAPIConnection | None, entry: ConnectionPoolEntry) -> None:
        entry.info[_SINCE_S] = time.monotonic()

    def ask(connection: DBAPIConnection, entry: ConnectionPoolEntry, _proxy: object) -> None:
        idle_s = time.monotonic() - entry.info.get(_SINCE_S, time.monotonic())
        try:
            if idle_s >= _IDLE_S or _has_news(connection):
                engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error  # upon which the pool opens another

    event.listen(engine, "checkin", note)
    event.listen(engine, "checkout", ask)


def _has_news(connection: DBAPIConnection) -> bool:
    """Say whether PostgreSQL sent something that nobody asked for: a notice, or that it ends the connection."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))


def _json(value: object) -> str:
    return to_json(value).decode()
