"""Endpoint of match results."""

from collections import Counter

from fastapi import APIRouter
from fastapi.responses import Response

from league import wire
from league.api import errors as api_errors
from league.api.dependencies import Now, Running, Worker
from league.api.fast_route import FastRoute
from league.api.responses import json_response
from league.errors import ResultConflictError
from league.services.results import service as results
from league.services.workers.polling import next_poll_s
from league.wire import PREFIX

router = APIRouter(route_class=FastRoute, prefix=PREFIX, tags=["results"])


@router.post("/results", response_model=wire.ResultBatchAnswer)
def report_results(body: wire.ResultReport, league: Running, now: Now, caller: Worker) -> Response:
    """Report finished matches; each item gets its own answer, and a batch can be sent again safely.

    If every item is a conflict, the response is a problem with status 409 that contains the items as well.
    """
    answers = results.submit(league.database, league.settings, league.lease_cache, caller, body, now)
    for status, count in Counter(item.status for item in answers).items():
        league.metrics.results.labels(status).inc(count)
    answer = wire.ResultBatchAnswer(items=answers, next_poll_s=next_poll_s(league.settings, league.rng))
    if answers and all(item.status == "conflict" for item in answers):
        first = f"{answers[0].sequence} of lease {answers[0].lease_id}"
        rule = f"it was already reported with other values, as match {answers[0].match_id}, like all of the batch"
        error = ResultConflictError(first, rule, "drop it: the first report counts")
        return api_errors.response(error, answer.model_dump(mode="json"))
    return json_response(answer)
