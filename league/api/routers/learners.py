"""Learners: registered, listed, and their training curves."""

from typing import Annotated

from fastapi import APIRouter, Query

from league import wire
from league.api.dependencies import ID_LIMIT, TEXT, After, Filter, Id, Limit, Now, Reader, Running, Worker
from league.api.responses import page
from league.api.routes import ApiRoute
from league.services.population import learners, registration, training_curves
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/learners", tags=["learners"])


@router.post("")
def get_or_create(body: wire.LearnerCreate, league: Running, now: Now, caller: Worker) -> wire.Learner:
    """Find or found the lineage of this name in its environment, and have it follow the numbers that are given."""
    with league.database.write() as session:
        return registration.register(session, league.settings, body, caller, now)


@router.get("")
def listing(
    league: Running, _: Reader, environment: Filter = None, limit: Limit = 100, cursor: After = 0
) -> wire.Page[wire.Learner]:
    """List lineages by id, with their latest metrics."""
    with league.database.read() as session:
        found = learners.listing(session, league.settings, environment, limit + 1, cursor)
    return page(found, limit, lambda learner: learner.id)


@router.get("/{learner_id}/metrics")
def metrics(
    learner_id: Id,
    league: Running,
    _: Reader,
    name: Annotated[
        list[Annotated[str, Query(pattern=TEXT)]] | None, Query(description="of metrics; all if left out")
    ] = None,
    after: Annotated[int, Query(ge=0, lt=ID_LIMIT, description="`last` of the answer before")] = 0,
    most: Annotated[
        int | None, Query(ge=1, le=100_000, description="points, spread over the steps; null for all")
    ] = None,
) -> wire.LearnerMetrics:
    """Show how a learner's metrics went over its steps."""
    with league.database.read() as session:
        return training_curves.read(session, learner_id, after=after, names=name, most=most)
