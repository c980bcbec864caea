"""Empty databases for a benchmark, with durable writes as in production."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import postgres_server
from sqlalchemy import create_engine, make_url, text

BACKENDS = ("sqlite", "postgresql")

_numbers = count()


@contextmanager
def server(backend: str) -> Iterator[str]:
    """Yield the URL of a PostgreSQL server for `empty`, or an empty string for SQLite."""
    if backend == "sqlite":
        yield ""
        return
    with postgres_server.running(durable=True) as url:
        yield url


def empty(server_url: str, folder: Path) -> str:
    """Create a database and return its URL."""
    name = f"league_{next(_numbers)}"
    if not server_url:
        return f"sqlite:///{folder / name}.db"
    url = make_url(server_url)
    engine = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return url.set(database=name).render_as_string(hide_password=False)
