"""Runs pages: the training processes of learners, one of them, and the difference between two."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from league.api.dependencies import ID_LIMIT, Before, Id, Running
from league.run_text import flatten
from league.services.population import runs
from league.web.layout import PageRoute, Visiting

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE = 50
"""Runs per page."""

RunId = Annotated[int, Query(ge=1, lt=ID_LIMIT)]


@router.get("/runs")
def listing(league: Running, visit: Visiting, before: Before = None) -> HTMLResponse:
    """Show the runs of an environment, newest first."""
    with league.database.read() as session:
        found = runs.list_runs(session, visit.environment, None, PAGE, before)
    return visit.page("runs.html", "training", "Runs", found=found, before=before)


@router.get("/runs/difference")
def compare(league: Running, visit: Visiting, first: RunId, second: RunId) -> HTMLResponse:
    """Show the settings, versions and machine in which two runs differ."""
    with league.database.read() as session:
        differences = runs.compare(session, first, second)
        both = [runs.show(session, run_id) for run_id in (first, second)]
    title = f"Runs {first} and {second}"
    return visit.of(both[0].environment).page(
        "runs_difference.html", "training", title, differences=differences, both=both
    )


@router.get("/runs/{run_id}")
def show(run_id: Id, league: Running, visit: Visiting) -> HTMLResponse:
    """Show one run."""
    with league.database.read() as session:
        run = runs.show(session, run_id)
    details = {"Settings": dict(flatten(run.settings)), "Origin": dict(flatten(run.origin))}
    return visit.of(run.environment).page("run.html", "training", f"Run {run_id}", run=run, details=details)
