"""Applications of a test's leagues, all with the routes of the first one.

FastAPI works out what the routes of an application take when they are first called, which is more work than most tests
do. Nothing in a route belongs to a league, but for the functions that stand in for its dependencies.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from fastapi import FastAPI

from league.app import create_app
from league.db import engine
from league.settings import Settings

# Waits for the disk are a fifth of these tests' time, and none of them cuts the power. PostgreSQL's is set alike.
DURABLE = engine._SQLITE_PRAGMAS
engine._SQLITE_PRAGMAS = (*DURABLE, "PRAGMA synchronous = OFF")

Function = Callable[..., Any]


def make(settings: Settings, standing_in: Mapping[Function, Function]) -> FastAPI:
    """Make an application; what stands in for dependencies does so in all that are there at the same time."""
    app, shared = create_app(settings), first()
    app.dependency_overrides = shared.dependency_overrides = dict(standing_in)
    app.router.routes[:] = shared.router.routes
    return app


@cache
def first() -> FastAPI:
    """Make one that is never started, whatever LEAGUE_* say: it opens nothing and leaves nothing behind."""
    return create_app(Settings.model_construct(home=Path(gettempdir())))
