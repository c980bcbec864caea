"""Liveness, readiness, metrics."""

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy.exc import SQLAlchemyError

from league import wire
from league.api.dependencies import Running
from league.db import schema
from league.errors import LeagueError

router = APIRouter(tags=["health"])

_OK = "ok"
_UNREADY = 503


@router.get("/healthz")
async def live() -> wire.Health:
    """Say that the process answers."""
    return wire.Health(status="ok", checks={})


@router.get("/readyz", responses={_UNREADY: {"model": wire.Health}})
def ready(league: Running, response: Response) -> wire.Health:
    """Say whether database, schema and store are fit for work, and if not, why."""
    checks = {"database": _OK, "store": _OK}
    try:
        schema.check(league.database)
    except (LeagueError, SQLAlchemyError) as error:
        checks["database"] = str(error).splitlines()[0]
    try:
        league.store.check()
    except LeagueError as error:
        checks["store"] = str(error)
    if all(state == _OK for state in checks.values()):
        return wire.Health(status="ok", checks=checks)
    response.status_code = _UNREADY
    return wire.Health(status="unready", checks=checks)


@router.get("/metrics", response_class=Response)
def metrics(league: Running) -> Response:
    """Send the figures for Prometheus."""
    return Response(league.metrics.exposition(league.database), media_type=CONTENT_TYPE_LATEST)
