"""Results come in."""

from collections import Counter

from fastapi import APIRouter
from fastapi.responses import Response

from league import wire
from league.api import problems
from league.api.dependencies import Chance, Now, Running, Worker
from league.errors import ResultConflictError
from league.services import ownership, results
from league.services.polling import next_poll_s
from league.wire import PREFIX

router = APIRouter(prefix=PREFIX, tags=["play"])


@router.post("/results", response_model=wire.ResultBatchAnswer)
<<<<<<< HEAD
def report(body: wire.ReceivedBatch, league: Running, now: Now, rng: Chance, _: Worker) -> Response:
=======
def report(
    body: wire.ResultBatch, league: Running, now: Now, rng: Chance, caller: Worker
) -> wire.ResultBatchAnswer | JSONResponse:
>>>>>>> origin/main
    """Report finished matches; every item is answered on its own, and sending a batch again is safe.

    Where every item is a conflict the answer is a problem of status 409 that carries the items too.
    """
<<<<<<< HEAD
    answers = results.submit(league.database, league.settings, body, now)
    for status, count in Counter(item.status for item in answers).items():
        league.metrics.results.labels(status).inc(count)
=======
    with league.database.write() as session:
        ownership.require_worker(session, caller, body.worker_id)
        answers = results.submit(session, league.settings, body, now)
    for item in answers:
        league.metrics.results.labels(item.status).inc()
>>>>>>> origin/main
    answer = wire.ResultBatchAnswer(items=answers, next_poll_s=next_poll_s(league.settings, rng))
    if answers and all(item.status == "conflict" for item in answers):
        first = f"{answers[0].sequence} of lease {answers[0].lease_id}"
        rule = f"it was reported otherwise before, as match {answers[0].match_id}, and so was all of the batch"
        error = ResultConflictError(first, rule, "drop it: the first report stays")
        return problems.response(error, answer.model_dump(mode="json"))
    return Response(answer.model_dump_json(), media_type="application/json")  # serialised once, not checked again
