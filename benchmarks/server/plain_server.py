"""A plain FastAPI and SQLAlchemy server as a reference: its engine, and how it is served."""

import argparse
from collections.abc import Callable
from sqlite3 import Connection

import uvicorn
from fastapi import FastAPI
from sqlalchemy import Engine, create_engine, event, make_url


def serve(create_app: Callable[[str], FastAPI]) -> None:
    """Serve the application that is made for a database's address, until a signal ends it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--database-url", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    uvicorn.run(create_app(arguments.database_url), port=arguments.port, access_log=False, log_level="warning")


def open_engine(database_url: str) -> Engine:
    """Return SQLAlchemy's own engine, as durable as the league's: SQLite with a write-ahead log and full syncs."""
    url = make_url(database_url)
    if url.get_backend_name() != "sqlite":
        return create_engine(url.set(drivername="postgresql+psycopg"), pool_size=8)
    engine = create_engine(url, connect_args={"timeout": 60})

    @event.listens_for(engine, "connect")
    def configure(connection: Connection, _: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    return engine
