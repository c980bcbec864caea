"""Workers page: state, activity and checks of workers, their commands and quarantine."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from league import wire
from league.api.dependencies import TEXT, Running, Word
from league.api.state import AppState
from league.services.trust import quarantine as trust_quarantine
from league.services.trust import review
from league.services.workers import activity
from league.services.workers import service as workers
from league.services.workers.activity import Activity
from league.settings import MISSED_HEARTBEATS
from league.web.actions import Changing
from league.web.layout import PageRoute, Visit, Visiting
from league.web.templating import query

router = APIRouter(route_class=PageRoute, include_in_schema=False)

WORKERS_MAX = 500
"""Maximum number of workers shown, most recently seen first."""

LATE_HEARTBEATS = 1.25
"""Missed heartbeats after which a worker is overdue."""

SINCE = {"1": "the last hour", "24": "the last day", "168": "the last week", "": "the beginning"}
"""Selectable starts of a quarantine, by hours before now."""

State = Literal["quarantined", "suspect", "draining", "stopping", "attached", "overdue", "away"]
ATTACHED: tuple[State, ...] = ("attached", "suspect", "draining")
"""States of workers that send heartbeats and play."""

_COMMAND_STATES: Mapping[wire.Command, State] = {"drain": "draining", "stop": "stopping"}


class PageQuery(BaseModel):
    """Query of the page; forms send an empty string for no value."""

    q: Annotated[str, Field(max_length=200, pattern=TEXT)] = ""
    kind: wire.WorkerKind | Literal[""] = ""

    def address(self, visit: Visit, path: str) -> str:
        """Return a URL with this query."""
        return query(path, environment=visit.chosen, **self.model_dump(exclude_defaults=True))


QueryParams = Annotated[PageQuery, Query()]


@dataclass(frozen=True)
class Line:
    """A worker with its activity and most important state."""

    worker: wire.ListedWorker
    activity: Activity
    state: State


@router.get("/workers")
def show(league: Running, visit: Visiting, params: QueryParams) -> HTMLResponse:
    """Show the workers, those that need attention first."""
    return visit.page("workers.html", "workers", "Workers", **_table(league, visit, params), since=SINCE)


@router.get("/workers/now")
def now(league: Running, visit: Visiting, params: QueryParams) -> HTMLResponse:
    """Return the current rows of the table."""
    return visit.part("_workers_now.html", **_table(league, visit, params))


@router.post("/workers/{worker_id}/quarantine")
def quarantine(
    worker_id: Word, changing: Changing, since_h: Annotated[Literal["", "1", "24", "168"], Form()]
) -> Response:
    """Quarantine a worker, with the results of its last hours or all of them."""
    database, cause = changing.league.database, changing.cause
    with database.read() as session:
        registered_at = workers.require(session, worker_id).registered_at
    # A quarantine cannot begin before the worker registered.
    since = max(registered_at, cause.now - timedelta(hours=int(since_h))) if since_h else registered_at
    body = wire.WorkerQuarantine(since=since, reason=cause.reason)
    trust_quarantine.impose(database, worker_id, body, cause.actor, cause.now)
    return changing.done("/workers")


@router.post("/workers/{worker_id}/reinstate")
def reinstate(worker_id: Word, changing: Changing, restore: Annotated[bool, Form()] = False) -> Response:
    """Lift a worker's quarantine, from now on or retroactively."""
    cause = changing.cause
    body = wire.WorkerReinstatement(reason=cause.reason, restore=restore)
    trust_quarantine.lift(changing.league.database, worker_id, body, cause.actor, cause.now)
    return changing.done("/workers")


@router.post("/workers/{worker_id}/command")
def command(worker_id: Word, changing: Changing, command: Annotated[wire.Command, Form()]) -> Response:
    """Set the command that a worker receives with its next heartbeat."""
    league, cause = changing.league, changing.cause
    body = wire.CommandRequest(command=command, reason=cause.reason)
    with league.database.write() as session:
        workers.command(session, league.settings, worker_id, body, cause.actor, cause.now)
    return changing.done("/workers")


def list_lines(session: Session, league: AppState, visit: Visit, kind: wire.WorkerKind | None = None) -> list[Line]:
    """Return the workers that were seen last, optionally of one kind: those that need attention first."""
    found = review.latest(session, league.settings, league.review_cache, WORKERS_MAX, kind, visit.now)
    busy = activity.of_workers(session, visit.now)
    heartbeat = timedelta(seconds=league.settings.heartbeat_s)
    lines = [
        Line(worker, busy.get(worker.id, Activity()), _state(worker, (visit.now - worker.seen_at) / heartbeat))
        for worker in found
    ]
    order: list[State] = ["quarantined", "suspect"]
    return sorted(lines, key=lambda line: order.index(line.state) if line.state in order else len(order))


def _table(league: AppState, visit: Visit, params: PageQuery) -> dict[str, Any]:
    with league.database.read() as session:
        lines = list_lines(session, league, visit, params.kind or None)
    return {
        "lines": [line for line in lines if params.q.lower() in line.worker.name.lower()],
        "params": params,
        "most": WORKERS_MAX,
        "attached": ATTACHED,
        "heartbeat_s": league.settings.heartbeat_s,
    }


def _state(worker: wire.ListedWorker, heartbeats: float) -> State:
    """Return the most important state of a worker that was seen a number of heartbeats ago."""
    if worker.quarantine is not None:
        return "quarantined"
    if worker.suspect:
        return "suspect"
    if heartbeats > LATE_HEARTBEATS:
        return "away" if heartbeats > MISSED_HEARTBEATS else "overdue"
    return _COMMAND_STATES.get(worker.command, "attached")
