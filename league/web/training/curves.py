"""Curves of learners: points of charts for the training page, and all points as CSV."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from io import StringIO
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, StreamingResponse

from league import wire
from league.api.dependencies import ID_LIMIT, Id, Running
from league.services.population import learners, training_curves
from league.web import filters
from league.web.cookies import Visitor
from league.web.layout import PageRoute
from league.web.training.charts import CHARTS, lines_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)

POINTS = 600
"""Points of a chart in the first response."""

COMPARED_MAX = 6
"""Maximum number of learners in one chart, each with its colour."""

_FRESH = {"Cache-Control": "no-store"}
_KEYS = ("learner", "step", "reported_at")


@router.get("/training/{learner_id}/curves")
def curves_of(
    learner_id: Id,
    league: Running,
    _: Visitor,
    after: Annotated[int, Query(ge=0, lt=ID_LIMIT)] = 0,
    more: bool = False,
) -> JSONResponse:
    """Return a learner's charts: first `POINTS` points over all steps, later the points after the last one.

    `more` includes the charts that are shown only on request.
    """
    with league.database.read() as session:
        curves = training_curves.read(session, learner_id, after=after, most=POINTS)
    content = {
        "last": curves.last,
        "steps": curves.steps,
        "times": [at.timestamp() for at in curves.reported_at],
        "charts": {
            chart.key: [asdict(line) for line in lines_of(chart, curves.metrics)]
            for chart in CHARTS
            if more or not chart.more
        },
    }
    return JSONResponse(content, headers=_FRESH)


@router.get("/training/curves.csv")
def download(
    league: Running,
    _: Visitor,
    learner: Annotated[list[Annotated[int, Query(ge=1, lt=ID_LIMIT)]], Query(min_length=1, max_length=COMPARED_MAX)],
) -> StreamingResponse:
    """Download all stored points of some learners, with a column for each metric."""
    with league.database.read() as session:
        found = [
            (learners.require(session, each).name, training_curves.read(session, each))
            for each in dict.fromkeys(learner)
        ]
    headers = _FRESH | {"Content-Disposition": 'attachment; filename="curves.csv"'}
    return StreamingResponse(_csv(found), media_type="text/csv; charset=utf-8", headers=headers)


def _csv(found: Sequence[tuple[str, wire.TrainingCurves]]) -> Iterator[str]:
    """Write points line by line, in order of learners and steps; unknown values are empty."""
    names = sorted({name for _, curves in found for name in curves.metrics})
    yield _line([*_KEYS, *names])
    for learner, curves in found:
        unknown: list[float | None] = [None] * len(curves.steps)
        columns = [curves.metrics.get(name, unknown) for name in names]
        for step, at, *values in zip(curves.steps, curves.reported_at, *columns, strict=True):
            yield _line([learner, step, filters.iso(at), *values])


def _line(values: Sequence[object]) -> str:
    line = StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
