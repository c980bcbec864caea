"""Liveness, readiness, metrics."""

import logging
from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from league import wire
from league.api import problems
from league.api.dependencies import Now, Running
from league.db import schema
from league.db.engine import Database
from league.errors import LeagueError

router = APIRouter(tags=["health"])
log = logging.getLogger(__name__)

_OK = "ok"
_UNREADY = 503


@router.get("/healthz")
async def live() -> wire.Health:
    """Say that the process answers."""
    return wire.Health(status="ok", checks={})


@router.get("/readyz", responses={_UNREADY: {"model": wire.Health}})
def ready(league: Running, request: Request, response: Response) -> wire.Health:
    """Say whether database, schema and store are fit for work, and if not, why; also whether books are kept.

    Where they are not, calls are answered all the same, and another server may keep them. Anybody may ask, so that
    where the database is and who may use it stands in the log alone.
    """
    bookkeeper = request.app.state.bookkeeper
    books = {"books": _OK if bookkeeper is None else bookkeeper.state}
    checks = {
        "database": _state(lambda: _ask(league.database)),
        "schema": _state(lambda: schema.check(league.database)),
        "store": _state(league.store.check),
    }
    if all(state == _OK for state in checks.values()):
        return wire.Health(status="ok", checks=checks | books)
    log.warning("not ready: %s", "; ".join(state for state in checks.values() if state != _OK))
    response.status_code = _UNREADY
    told = {name: _without_address(checks[name], league.database) for name in ("database", "schema")}
    return wire.Health(status="unready", checks=checks | told | books)


def _state(check: Callable[[], None]) -> str:
    """Return `ok`, or in one line why not."""
    try:
        check()
    except (LeagueError, SQLAlchemyError) as error:
        return str(error).splitlines()[0]
    return _OK


def _without_address(state: str, database: Database) -> str:
    return problems.nameless(state.replace(str(database), "the database"))


def _ask(database: Database) -> None:
    with database.read() as session:
        session.execute(select(1))


@router.get("/metrics", response_class=Response)
def metrics(league: Running, now: Now) -> Response:
    """Send the figures for Prometheus."""
    return Response(league.metrics.exposition(league.database, now), media_type=CONTENT_TYPE_LATEST)
