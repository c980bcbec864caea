"""Endpoints of runs: the training processes of learners."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from league import wire
from league.api.dependencies import ID_LIMIT, Before, Filter, Id, Limit, Now, Reader, Running, Worker
from league.api.responses import created
from league.api.routes import ApiRoute
from league.pagination import Page
from league.services.auth import ownership
from league.services.population import runs
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/runs", tags=["learners"])


@router.post("", status_code=201, response_model=wire.Run)
def create_run(body: wire.RunCreate, league: Running, now: Now, caller: Worker) -> Response:
    """Store a training process, or return the learner's run of this key."""
    with league.database.write() as session:
        ownership.require_learner(session, caller, body.learner_id)
        run = runs.start(session, body, now)
    return created(run, f"/runs/{run.id}", is_new=run.started_at == now)


@router.get("", response_model=wire.Page[wire.Run])
def list_runs(
    league: Running,
    _: Reader,
    environment: Filter = None,
    learner: Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="Only runs of the learner of this id")] = None,
    limit: Limit = 100,
    cursor: Before = None,
) -> Page[wire.Run]:
    """List runs, newest first."""
    with league.database.read() as session:
        return runs.list_runs(session, environment, learner, limit, cursor)


@router.get("/{run_id}")
def get_run(run_id: Id, league: Running, _: Reader) -> wire.Run:
    """Return one run."""
    with league.database.read() as session:
        return runs.show(session, run_id)


@router.get("/{run_id}/difference")
def compare_runs(
    run_id: Id,
    league: Running,
    _: Reader,
    other: Annotated[int, Query(ge=1, lt=ID_LIMIT, description="Id of the second run")],
) -> wire.RunComparison:
    """List the seed, settings and parts of the origin in which two runs differ."""
    with league.database.read() as session:
        return wire.RunComparison(differences=runs.compare(session, run_id, other))
