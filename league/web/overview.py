"""Overview, which is the front page: champion, ratings over time, learners, workers and alarms."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from sqlalchemy.orm import Session

from league import wire
from league.api.dependencies import Running
from league.api.state import AppState
from league.services.leaderboard import lineage_progress, standings
from league.services.leaderboard.lineage_progress import LineageProgress
from league.services.leaderboard.standings import Standings, StandingsRow
from league.services.lifecycle import champions
from league.services.rating_periods import queries as periods
from league.web import filters, workers
from league.web.layout import PageRoute, Visit, Visiting
from league.web.standings import FIELDS as STANDINGS_FIELDS
from league.web.templating import query
from league.web.training.learners import Learning, list_learnings

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LEARNERS_SHOWN = 8
ALARMS_SHOWN = 6
LINES = 6
"""Learners with a line of their own in the chart, the strongest ones."""

POINTS = 120
"""Points of a line; all snapshots of other learners have three times as many."""

RECENT = timedelta(days=1)
"""Time over which progress is measured, and within which a learner that stops reporting is an alarm."""


@dataclass(frozen=True)
class LearnerRow:
    """A learner with its newest rated snapshot, and by how much that one is rated above the newest of a day ago."""

    learning: Learning
    newest: StandingsRow | None
    gain: float | None


@dataclass(frozen=True)
class WorkerSummary:
    """Workers of all environments: numbers of the attached ones by kind, of overdue ones, matches per second."""

    attached: Mapping[wire.WorkerKind, int]
    overdue: int
    matches_per_s: float


@dataclass(frozen=True)
class Alarm:
    """Something that needs attention.

    Attributes:
        severity: Severity.
        subject: Name of the learner or worker.
        address: URL of its page.
        text: What is wrong, as the predicate of a sentence.
        since: Time since which it is known.
        others: Number of further subjects of the same text.
    """

    severity: Literal["alarm", "warning"]
    subject: str
    address: str
    text: str
    since: datetime | None = None
    others: int = 0


@router.get("/")
def show(request: Request, league: Running, visit: Visiting) -> Response:
    """Show the state of the league; links to the standings from before they moved to `/standings` lead there."""
    if not request.query_params.keys().isdisjoint({*STANDINGS_FIELDS, "offset"}):
        return RedirectResponse(f"/standings?{request.url.query}", status_code=HTTPStatus.PERMANENT_REDIRECT)
    return visit.page("overview.html", "overview", "Overview", **_state(league, visit))


@router.get("/overview/now")
def now(league: Running, visit: Visiting) -> HTMLResponse:
    """Return the current state without the chart."""
    return visit.part("_overview_now.html", **_state(league, visit))


@router.get("/overview/ratings")
def ratings(league: Running, visit: Visiting) -> JSONResponse:
    """Return the current rating of each snapshot by the time of its publication, as lines of the strongest learners."""
    with league.database.read() as session:
        table = standings.get_standings(session, league.settings, league.population, visit.environment)
    progress = lineage_progress.by_lineage(table)
    lines = [_line(each.name, each.snapshots, POINTS) for each in progress[:LINES]]
    others = sorted((row for each in progress[LINES:] for row in each.snapshots), key=lambda row: row.created_at)
    if others:
        lines.append(_line("others", others, 3 * POINTS) | {"scattered": True})
    return JSONResponse({"lines": lines}, headers={"Cache-Control": "no-store"})


def _state(league: AppState, visit: Visit) -> dict[str, Any]:
    with league.database.read() as session:
        table = standings.get_standings(session, league.settings, league.population, visit.environment)
        learnings = list_learnings(session, league, visit)
        lines = workers.list_lines(session, league, visit)
        champion = _champion(session, visit.environment, table)
        period = next(iter(periods.list_periods(session, visit.environment, 1).items), None)
        matches = periods.count_matches(session, visit.environment)
    rows = _learner_rows(learnings, lineage_progress.by_lineage(table), visit.now)
    return {
        "players": sum(row.rank is not None for row in table.rows),
        "champion": champion,
        "strongest": table.strongest(),
        "period": period,
        "matches": matches,
        "learners": rows,
        "workers": _summary(lines),
        "alarms": _alarms(visit, learnings, lines),
        "learners_shown": LEARNERS_SHOWN,
        "alarms_shown": ALARMS_SHOWN,
    }


def _champion(session: Session, environment: str, table: Standings) -> tuple[StandingsRow, datetime] | None:
    """Return the champion and since when it is."""
    last = next(iter(champions.list_champions(session, environment, 1).items), None)
    return None if last is None or last.player is None else (table.find(last.player.player_id), last.since)


def _learner_rows(
    learnings: Sequence[Learning], progress: Sequence[LineageProgress], now: datetime
) -> list[LearnerRow]:
    """Return the learners: those in training first, then the strongest."""
    found = {each.learner_id: each for each in progress}
    order = {each.learner_id: place for place, each in enumerate(progress)}
    ranked = sorted(learnings, key=lambda each: (each.silent, order.get(each.learner.id, len(order))))
    rows = []
    for each in ranked:
        own = found.get(each.learner.id)
        rows.append(
            LearnerRow(each, None, None) if own is None else LearnerRow(each, own.newest, own.gain(now - RECENT))
        )
    return rows


def _summary(lines: Sequence[workers.Line]) -> WorkerSummary:
    attached = Counter(line.worker.kind for line in lines if line.state in workers.ATTACHED)
    return WorkerSummary(
        attached=attached,
        overdue=sum(line.state == "overdue" for line in lines),
        matches_per_s=sum(line.activity.matches_per_s for line in lines),
    )


def _alarms(visit: Visit, learnings: Sequence[Learning], lines: Sequence[workers.Line]) -> list[Alarm]:
    """Return what needs attention, alarms before warnings; those with the same text are one."""
    found = [alarm for each in learnings for alarm in _alarms_of(visit, each)]
    for line in lines:
        # A quarantined worker has been dealt with.
        if line.state == "suspect":
            address = query("/workers", environment=visit.chosen, q=line.worker.name)
            found.append(Alarm("alarm", line.worker.name, address, "reported results that are not plausible"))
    groups: dict[tuple[str, str], Alarm] = {}
    for alarm in found:
        first = groups.setdefault((alarm.severity, alarm.text), alarm)
        if first is not alarm:
            groups[alarm.severity, alarm.text] = replace(first, others=first.others + 1)
    return sorted(groups.values(), key=lambda alarm: alarm.severity)


def _alarms_of(visit: Visit, learning: Learning) -> Iterator[Alarm]:
    learner = learning.learner
    address = query("/training", environment=visit.chosen, learner=learner.id)
    if learning.silent:
        if learner.metrics_at is not None and visit.now - learner.metrics_at < RECENT:
            yield Alarm("warning", learner.name, address, "stopped reporting", learner.metrics_at)
        return
    for verdict in learner.verdicts or ():
        if verdict.severity != "hint":
            yield Alarm(verdict.severity, learner.name, address, filters.words(verdict.name))
    for regression in learning.alarms:
        text = f"lost to {regression.opponent.name}, which it beat before"
        yield Alarm("alarm", learner.name, address, text, regression.since)


def _line(label: str, snapshots: Sequence[StandingsRow], most: int) -> dict[str, Any]:
    """Return a line of at most about `most` points, the last one included."""
    step = max(1, -(-len(snapshots) // most))
    shown = snapshots[::-1][::step][::-1]
    return {
        "label": label,
        "xs": [row.created_at.timestamp() for row in shown],
        "values": [round(row.rating, 1) for row in shown],
    }
