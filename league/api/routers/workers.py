"""Endpoints of workers: registration, heartbeats, commands and quarantine."""

from typing import Annotated

from fastapi import APIRouter, Body, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from league import wire
from league.api.dependencies import TEXT, Admin, Limit, Now, Reader, Running, Word, Worker
from league.api.fast_route import FastRoute
from league.api.responses import created, json_response
from league.pagination import Page
from league.services.population import snapshot_schedule
from league.services.trust import quarantine as trust_quarantine
from league.services.trust import review
from league.services.workers import heartbeats, registration
from league.services.workers import service as workers
from league.services.workers.polling import next_heartbeat_s, next_poll_s
from league.wire import PREFIX

router = APIRouter(route_class=FastRoute, prefix=f"{PREFIX}/workers", tags=["workers"])


@router.post("", status_code=201, response_model=wire.Worker)
async def register_worker(body: wire.WorkerCreate, league: Running, now: Now, caller: Worker) -> Response:
    """Register a worker; idempotent by instance, or by name, kind and token."""
    request = registration.Registration(body, caller, now)
    columns = await league.database.group_commit_async(registration.register, request, "registrations")
    poll_s = next_poll_s(league.settings, league.rng)
    worker = wire.Worker(**columns, heartbeat_s=league.settings.heartbeat_s, next_poll_s=poll_s)
    return created(worker, f"/workers/{worker.id}")


@router.get("", response_model=wire.Page[wire.ListedWorker])
def list_workers(
    league: Running,
    _: Reader,
    name: Annotated[str | None, Query(pattern=TEXT, description="Only workers of this name")] = None,
    limit: Limit = 100,
    cursor: Annotated[str, Query(pattern=TEXT, description="`next_cursor` of the previous page")] = "",
) -> Page[wire.ListedWorker]:
    """List workers by id, optionally of one name, with the checks of their latest results."""
    with league.database.read() as session:
        return review.list_workers(session, league.settings, name, limit, cursor)


@router.get("/{worker_id}")
def get_worker(worker_id: Word, league: Running, now: Now, _: Reader) -> wire.ListedWorker:
    """Return one worker with the checks of its latest results."""
    with league.database.read() as session:
        return review.get_worker(session, league.settings, league.review_cache, worker_id, now)


@router.post("/{worker_id}/heartbeat", response_model=wire.HeartbeatAnswer)
async def record_heartbeat(
    worker_id: Word,
    league: Running,
    now: Now,
    caller: Worker,
    body: Annotated[wire.Heartbeat | None, Body()] = None,
) -> Response:
    """Record a heartbeat with learner progress; return the command and due snapshots. The body may be empty."""
    learners = [] if body is None else body.learners
    heartbeat = heartbeats.Heartbeat(worker_id, learners, caller, now)
    response = await league.database.group_commit_async(
        heartbeats.record_heartbeats, heartbeat, "heartbeats", briefly=not learners
    )
    decisions = []
    if any(progress.since_step is not None for progress in learners):
        decisions = await run_in_threadpool(
            snapshot_schedule.decide_snapshots, league.database, league.settings, league.population, learners, now
        )
    answer = wire.HeartbeatAnswer(
        command=response.command,
        next_poll_s=next_poll_s(league.settings, league.rng),
        next_heartbeat_s=next_heartbeat_s(league.settings, league.worker_count.present, league.rng),
        quarantine=response.quarantine,
        decisions=decisions,
    )
    return json_response(answer)


@router.post("/{worker_id}/command")
def command_worker(worker_id: Word, body: wire.CommandRequest, league: Running, now: Now, caller: Admin) -> wire.Worker:
    """Set the command that the worker receives with its next heartbeat."""
    with league.database.write() as session:
        return workers.command(session, league.settings, worker_id, body, caller.name, now)


@router.post("/{worker_id}/quarantine")
def quarantine_worker(
    worker_id: Word, body: wire.WorkerQuarantine, league: Running, now: Now, caller: Admin
) -> wire.Quarantine:
    """Quarantine a worker: it gets no leases, its results since then are excluded, and ratings are recomputed."""
    return trust_quarantine.impose(league.database, worker_id, body, caller.name, now)


@router.post("/{worker_id}/reinstate")
def reinstate_worker(
    worker_id: Word, body: wire.WorkerReinstatement, league: Running, now: Now, caller: Admin
) -> wire.Quarantine:
    """Lift a worker's quarantine, from now on or retroactively; ratings are recomputed."""
    return trust_quarantine.lift(league.database, worker_id, body, caller.name, now)
