"""Health endpoints: liveness, readiness and metrics."""

import logging
from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from league import wire
from league.api import errors as api_errors
from league.api.dependencies import MetricsReader, Now, Running
from league.db import schema
from league.db.engine import Database
from league.errors import LeagueError, StoreUnavailableError

router = APIRouter(tags=["health"])
log = logging.getLogger(__name__)

_OK = "ok"
_UNREADY = 503


@router.get("/healthz")
async def get_liveness() -> wire.Health:
    """Return that the process responds."""
    return wire.Health(status="ok", checks={})


@router.get("/readyz", responses={_UNREADY: {"model": wire.Health}})
def get_readiness(league: Running, request: Request, response: Response) -> wire.Health:
    """Return whether database, schema, store and background process work.

    If only the background process is down, the status stays 200: calls still work and another server may run the
    tasks. The call needs no token, so only the log names the database and the store.
    """
    background = request.app.state.background
    tasks = {"background": _OK if background is None else background.state}
    failures = {
        "database": _failure(lambda: _ping(league.database)),
        "schema": _failure(lambda: schema.check(league.database)),
        "store": _failure(league.store.check),
    }
    checks = {
        name: _OK if error is None else _public_message(error, league.database) for name, error in failures.items()
    }
    wrong = [_line(error) for error in failures.values() if error is not None]
    if not wrong:
        return wire.Health(status="ok", checks=checks | tasks)
    # The log has the details that the public response omits.
    log.warning("not ready: %s", "; ".join(wrong))
    response.status_code = _UNREADY
    return wire.Health(status="unready", checks=checks | tasks)


def _failure(check: Callable[[], None]) -> Exception | None:
    """Return the error of a check, or None."""
    try:
        check()
    except (LeagueError, SQLAlchemyError) as error:
        return error
    return None


def _public_message(error: Exception, database: Database) -> str:
    """Return the public description of a failure, without addresses and without a store's own message."""
    if isinstance(error, StoreUnavailableError):
        return f"{error.title}: {error.rule.partition(' (')[0]}; see the server's log"
    return api_errors.redact(_line(error).replace(str(database), "the database"))


def _line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _ping(database: Database) -> None:
    with database.read() as session:
        session.execute(select(1))


@router.get("/metrics", response_class=Response)
def get_metrics(league: Running, now: Now, _: MetricsReader) -> Response:
    """Return the metrics for Prometheus; without a token if the server's settings allow it."""
    text = league.metrics.exposition(league.database, league.settings, now)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
