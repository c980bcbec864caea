"""Lineages in training."""

from fastapi import APIRouter

from league import wire
from league.api.dependencies import After, Filter, Limit, Now, Reader, Running, Worker
from league.api.paging import page
from league.services import learners, registration
from league.wire import PREFIX

router = APIRouter(prefix=f"{PREFIX}/learners", tags=["learners"])


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
