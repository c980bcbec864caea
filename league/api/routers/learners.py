"""Endpoints of learners: registration, listing and training curves."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from league import wire
from league.api.dependencies import ID_LIMIT, TEXT, After, Filter, Id, Limit, Now, Reader, Running, Worker
from league.api.responses import created
from league.api.routes import ApiRoute
from league.pagination import Page
from league.services.population import learners, training_curves
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/learners", tags=["learners"])


@router.post("", status_code=201, response_model=wire.Learner)
def create_learner(body: wire.LearnerCreate, league: Running, now: Now, caller: Worker) -> Response:
    """Return the learner of this name in its environment, or create it, and store the given role settings."""
    with league.database.write() as session:
        learner = learners.register(session, league.settings, body, caller, now)
    return created(learner, f"/learners/{learner.id}", is_new=learner.created_at == now)


@router.get("", response_model=wire.Page[wire.Learner])
def list_learners(
    league: Running, _: Reader, environment: Filter = None, limit: Limit = 100, cursor: After = 0
) -> Page[wire.Learner]:
    """List learners in ascending order of ids, with their latest metrics."""
    with league.database.read() as session:
        return learners.list_learners(session, league.settings, environment, limit, cursor)


@router.get("/{learner_id}")
def get_learner(learner_id: Id, league: Running, _: Reader) -> wire.Learner:
    """Return one learner with its latest metrics."""
    with league.database.read() as session:
        return learners.show(session, league.settings, learners.require(session, learner_id))


@router.get("/{learner_id}/metrics")
def get_learner_metrics(
    learner_id: Id,
    league: Running,
    _: Reader,
    name: Annotated[
        list[Annotated[str, Query(pattern=TEXT)]] | None, Query(description="of metrics; all if left out")
    ] = None,
    after: Annotated[int, Query(ge=0, lt=ID_LIMIT, description="`last` of the previous response")] = 0,
    most: Annotated[
        int | None, Query(ge=1, le=100_000, description="points, spread over the steps; null for all")
    ] = None,
) -> wire.TrainingCurves:
    """Return a learner's training curves over its steps."""
    with league.database.read() as session:
        return training_curves.read(session, learner_id, after=after, names=name, most=most)
