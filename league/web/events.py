"""Events page: the audit log, updated live."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query
from fastapi.responses import HTMLResponse, StreamingResponse
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from league.api.dependencies import ID_LIMIT, TEXT, Running
from league.api.routers import events
from league.services.audit import log as audit_log
from league.services.audit.log import AuditEntry, AuditFilter
from league.web import filters
from league.web.cookies import Visitor, VisitorValidity
from league.web.layout import PageRoute, Visit, Visiting
from league.web.templating import query

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE = 100

_SHOWN_ELSEWHERE = frozenset({"worker", "worker_id", "call_sign"})

Cursor = Annotated[int, Query(ge=1, lt=ID_LIMIT)]


class PageQuery(BaseModel):
    """Query of the page; forms send an empty string for no value."""

    kind: Annotated[str, Field(max_length=64, pattern=TEXT)] = ""
    actor: Annotated[str, Field(max_length=128, pattern=TEXT)] = ""
    player: Annotated[int, Field(ge=1, lt=ID_LIMIT)] | Literal[""] = ""
    periods: Literal["", "on"] = ""

    def choice(self, environment: str) -> AuditFilter:
        """Return the filter of the query."""
        return AuditFilter(
            environment=environment,
            league_wide=True,
            kind=self.kind or None,
            actor=self.actor or None,
            player_id=self.player or None,
            periods=bool(self.periods),
        )

    def address(self, visit: Visit, path: str, **more: str) -> str:
        """Return a URL with this query and further parameters."""
        return query(path, environment=visit.chosen, **self.model_dump(exclude_defaults=True), **more)


@dataclass(frozen=True)
class Detail:
    """A detail of an event in words; `player_id` if it is a player."""

    name: str
    text: str
    player_id: int | None


@dataclass(frozen=True)
class Lines:
    """A page of the log, newest first; `older` is the URL of the next page, None on the last."""

    lines: list[AuditEntry]
    older: str | None


QueryParams = Annotated[PageQuery, Query()]


@router.get("/events")
def show(league: Running, visit: Visiting, params: QueryParams) -> HTMLResponse:
    """Show the newest events."""
    with league.database.read() as session:
        page = _page(session, visit, params, None)
        kinds, actors = audit_log.list_kinds(session), audit_log.list_actors(session)
    values = {
        "page": page,
        "params": params,
        "kinds": kinds,
        "actors": actors,
        "most": PAGE,
        "event_details": event_details,
    }
    return visit.page("events.html", "events", "Events", **values)


@router.get("/events/older")
def older(league: Running, visit: Visiting, params: QueryParams, before: Cursor) -> HTMLResponse:
    """Show the events before a given one."""
    with league.database.read() as session:
        page = _page(session, visit, params, before)
    return visit.part("_events.html", page=page, event_details=event_details)


@router.get("/events/newer")
def newer(
    league: Running, visit: Visiting, params: QueryParams, after: Annotated[int, Query(ge=0, lt=ID_LIMIT)]
) -> HTMLResponse:
    """Show the newest `PAGE` events after a given one; the page reloads itself if there are that many."""
    with league.database.read() as session:
        lines = audit_log.list_newer_events(session, params.choice(visit.environment), after, PAGE)
    return visit.part("_events.html", page=Lines(lines, None), event_details=event_details)


def event_details(line: AuditEntry) -> list[Detail]:
    """Return the details to show; tables of numbers are only in `GET /api/v1/events/history`.

    Details that have their own column (worker, player and call-sign) are omitted.
    """
    return [
        Detail(filters.words(name), line.others.get(name, _short(value)), value if name in line.others else None)
        for name, value in line.details.items()
        if not isinstance(value, Mapping | list) and name not in _SHOWN_ELSEWHERE and not _is_implied(line, name)
    ]


def _is_implied(line: AuditEntry, name: str) -> bool:
    """Return whether a detail is redundant; an empty `to` of a champion change is not, since it means no champion."""
    value = line.details[name]
    if line.kind == "champion" and name == "to":
        return bool(value == line.player_id)
    return value is None


def _short(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return filters.count(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _page(session: Session, visit: Visit, params: PageQuery, before: int | None) -> Lines:
    found = audit_log.list_events(session, params.choice(visit.environment), PAGE, before)
    cursor = found.next_cursor
    return Lines(found.items, None if cursor is None else params.address(visit, "/events/older", before=cursor))


@router.get("/live")
async def follow(
    league: Running, _: Visitor, is_valid: VisitorValidity, last_event_id: Annotated[str | None, Header()] = None
) -> StreamingResponse:
    """Stream events like `GET /api/v1/events`, until the visitor's token becomes invalid."""
    return await events.follow(league, is_valid, last_event_id, named=False)
