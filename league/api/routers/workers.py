"""Workers: registered, seen by heartbeats, commanded and quarantined."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from league import wire
from league.api.dependencies import TEXT, Admin, Filter, Limit, Now, Reader, Running, Word, Worker
from league.api.responses import json_response, page
from league.api.routes import ApiRoute
from league.services.population import snapshot_schedule
from league.services.trust import quarantine as trust_quarantine
from league.services.trust import review
from league.services.workers import heartbeats, registration
from league.services.workers import service as workers
from league.services.workers.polling import next_heartbeat_s
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/workers", tags=["workers"])


@router.post("", response_model=wire.Worker)
async def register(body: wire.WorkerCreate, league: Running, now: Now, caller: Worker) -> Response:
    """Attach; the same instance, or the same name, kind and token, again is the same worker."""
    return json_response(await league.registrations.run(registration.Registration(body, caller, now, league.rng)))


@router.get("")
def listing(
    league: Running,
    _: Reader,
    name: Filter = None,
    limit: Limit = 100,
    cursor: Annotated[str, Query(pattern=TEXT)] = "",
) -> wire.Page[wire.ListedWorker]:
    """List workers by id, all or those of a name, with how their last results fit what is expected."""
    with league.database.read() as session:
        found = review.listing(session, league.settings, limit + 1, cursor, name)
    return page(found, limit, lambda worker: worker.id)


@router.post("/{worker_id}/heartbeat", response_model=wire.HeartbeatAnswer)
async def heartbeat(
    worker_id: Word,
    league: Running,
    now: Now,
    caller: Worker,
    body: Annotated[wire.Heartbeat | None, Body()] = None,
) -> Response:
    """Stay attached, report progress, hear what to do and which snapshots are due; the body may be empty."""
    learners = [] if body is None else body.learners
    answer = await league.beats.run(heartbeats.Heartbeat(worker_id, learners, caller, now, league.rng))
    further: dict[str, Any] = {"next_heartbeat_s": next_heartbeat_s(league.settings, league.census.present, league.rng)}
    if any(progress.since_step is not None for progress in learners):
        further["decisions"] = await run_in_threadpool(
            snapshot_schedule.decide_snapshots, league.database, league.settings, league.population, learners, now
        )
    return json_response(answer.model_copy(update=further))


@router.post("/{worker_id}/command")
def command(worker_id: Word, body: wire.CommandRequest, league: Running, now: Now, caller: Admin) -> wire.Worker:
    """Set what the worker is told at its next heartbeat."""
    with league.database.write() as session:
        return workers.command(session, league.settings, worker_id, body, caller.name, now)


@router.post("/{worker_id}/quarantine")
def quarantine(
    worker_id: Word, body: wire.WorkerQuarantine, league: Running, now: Now, caller: Admin
) -> wire.Quarantine:
    """Stop trusting the worker: no leases, and what it reported since then does not count; all ratings follow."""
    return trust_quarantine.impose(league.database, worker_id, body, caller.name, now)


@router.post("/{worker_id}/reinstate")
def reinstate(
    worker_id: Word, body: wire.WorkerReinstatement, league: Running, now: Now, caller: Admin
) -> wire.Quarantine:
    """Trust the worker again, from now on or as if it had always been; all ratings follow."""
    return trust_quarantine.lift(league.database, worker_id, body, caller.name, now)
