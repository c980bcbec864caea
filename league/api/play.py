"""What a worker calls while it plays: leases and results."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from league import wire
from league.api import problems
from league.api.dependencies import Chance, Now, Reader, Running, Word, Worker
from league.errors import ResultConflictError
from league.services import leases, results
from league.wire import PREFIX

router = APIRouter(prefix=PREFIX, tags=["play"])


@router.post("/leases")
def lease(body: wire.LeaseRequest, league: Running, now: Now, rng: Chance, _: Worker) -> wire.LeaseAnswer:
    """Lease opponents for a learner, or pairs of frozen players."""
    with league.database.write() as session:
        if isinstance(body, wire.TrainingLeases):
            granted = leases.grant_training(session, league.settings, league.population, body, now, rng)
        else:
            granted = leases.grant_rating(session, league.settings, league.population, body, now, rng)
    league.metrics.leases.labels(body.kind).inc(len(granted))
    return wire.LeaseAnswer(items=granted, next_poll_s=league.settings.next_poll_s)


@router.post("/leases/release")
def release(body: wire.ReleaseRequest, league: Running, now: Now, _: Worker) -> wire.ReleaseAnswer:
    """Give leases back; results of theirs that are still on the way count."""
    with league.database.write() as session:
        return wire.ReleaseAnswer(released=leases.release(session, body, now))


@router.get("/leases/{lease_id}")
def explain(lease_id: Word, league: Running, _: Reader) -> wire.LeaseExplanation:
    """Show a lease and the distribution that it was drawn from."""
    with league.database.read() as session:
        return leases.explain(session, lease_id)


@router.post("/results", response_model=wire.ResultBatchAnswer)
def report(body: wire.ResultBatch, league: Running, now: Now, _: Worker) -> wire.ResultBatchAnswer | JSONResponse:
    """Report finished matches; every item is answered on its own, and sending a batch again is safe.

    Where every item is a conflict the answer is a problem of status 409 that carries the items too.
    """
    with league.database.write() as session:
        answers = results.submit(session, league.settings, body, now)
    for item in answers:
        league.metrics.results.labels(item.status).inc()
    answer = wire.ResultBatchAnswer(items=answers, next_poll_s=league.settings.next_poll_s)
    if answers and all(item.status == "conflict" for item in answers):
        first = f"{answers[0].sequence} of lease {answers[0].lease_id}"
        rule = f"it was reported otherwise before, as match {answers[0].match_id}, and so was all of the batch"
        error = ResultConflictError(first, rule, "drop it: the first report stays")
        return problems.response(error, answer.model_dump(mode="json"))
    return answer
