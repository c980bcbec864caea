"""Workers: who is attached, how busy, how far its results are believed, and what it is told to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import HTMLResponse

from league import wire
from league.api.dependencies import League, Now, Running, Word
from league.services import activity, quarantines, reviews, workers
from league.services.activity import Activity
from league.web.actions import Reason, done
from league.web.shell import PageRoute, Visit, Visiting
from league.web.visitors import Actor

router = APIRouter(route_class=PageRoute, include_in_schema=False)

WORKERS_MAX = 500
"""Workers that are shown, those that were seen last."""

MISSED_BEATS = 3
"""So many heartbeats without a sign of life, and a worker is away."""

SINCE = {"1": "the last hour", "24": "the last day", "168": "the last week", "": "all that it ever reported"}
"""What of a worker's results may be taken back, by hours."""

Kind = Annotated[wire.WorkerKind | Literal[""], Query()]
State = Literal["quarantined", "suspect", "draining", "stopping", "attached", "away"]
_TOLD: Mapping[wire.Command, State] = {"drain": "draining", "stop": "stopping"}


@dataclass(frozen=True)
class Line:
    """A worker, what it does, and the first thing to know about it."""

    worker: wire.ListedWorker
    activity: Activity
    state: State


@router.get("/workers")
def show(league: Running, visit: Visiting, kind: Kind = "") -> HTMLResponse:
    """Show the workers, those to look at first."""
    lines = _lines(league, visit, kind)
    return visit.page("workers.html", "workers", "Workers", lines=lines, kind=kind, since=SINCE, most=WORKERS_MAX)


@router.get("/workers/now")
def now(league: Running, visit: Visiting, kind: Kind = "") -> HTMLResponse:
    """Show the same as it is now, as far as it changes by itself."""
    return visit.part("_workers_now.html", lines=_lines(league, visit, kind), kind=kind, most=WORKERS_MAX)


@router.post("/workers/{worker_id}/quarantine")
def quarantine(
    worker_id: Word,
    request: Request,
    league: Running,
    now: Now,
    caller: Actor,
    reason: Reason,
    since_h: Annotated[Literal["", "1", "24", "168"], Form()],
) -> Response:
    """Stop trusting a worker, with what it reported in so many hours, or ever."""
    with league.database.read() as session:
        registered_at = workers.require(session, worker_id).registered_at
    since = max(registered_at, now - timedelta(hours=int(since_h))) if since_h else registered_at
    asked = wire.WorkerQuarantine(since=since, reason=reason)
    quarantines.impose(league.database, worker_id, asked, caller.name, now)
    return done(request, "/workers")


@router.post("/workers/{worker_id}/reinstate")
def reinstate(
    worker_id: Word,
    request: Request,
    league: Running,
    now: Now,
    caller: Actor,
    reason: Reason,
    restore: Annotated[bool, Form()] = False,
) -> Response:
    """Trust a worker again, from now on or as if it had always been."""
    asked = wire.WorkerReinstatement(reason=reason, restore=restore)
    quarantines.lift(league.database, worker_id, asked, caller.name, now)
    return done(request, "/workers")


@router.post("/workers/{worker_id}/command")
def command(
    worker_id: Word,
    request: Request,
    league: Running,
    now: Now,
    caller: Actor,
    reason: Reason,
    command: Annotated[wire.Command, Form()],
) -> Response:
    """Set what a worker is told at its next heartbeat."""
    asked = wire.CommandRequest(command=command, reason=reason)
    with league.database.write() as session:
        workers.command(session, league.settings, worker_id, asked, caller.name, now)
    return done(request, "/workers")


def _lines(league: League, visit: Visit, kind: wire.WorkerKind | Literal[""]) -> list[Line]:
    with league.database.read() as session:
        found = reviews.latest(session, league.settings, WORKERS_MAX, kind or None)
        busy = activity.of_workers(session, visit.now)
    away = timedelta(seconds=MISSED_BEATS * league.settings.heartbeat_s)
    lines = [
        Line(worker, busy.get(worker.id, Activity()), _state(worker, is_away=visit.now - worker.seen_at > away))
        for worker in found
    ]
    order: list[State] = ["quarantined", "suspect"]
    return sorted(lines, key=lambda line: order.index(line.state) if line.state in order else len(order))


def _state(worker: wire.ListedWorker, *, is_away: bool) -> State:
    if worker.quarantine is not None:
        return "quarantined"
    if worker.suspect:
        return "suspect"
    if is_away:
        return "away"
    return _TOLD.get(worker.command, "attached")
