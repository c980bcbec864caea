"""Events: the audit log, as it grows."""

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
from league.web.cookies import Visitor, VisitorLasts
from league.web.layout import PageRoute, Visit, Visiting
from league.web.templating import query

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE = 100

_SAID = frozenset({"worker", "worker_id", "call_sign"})

Cursor = Annotated[int, Query(ge=1, lt=ID_LIMIT)]


class Asked(BaseModel):
    """What the address asks for; an empty word is none, as forms send it."""

    kind: Annotated[str, Field(max_length=64, pattern=TEXT)] = ""
    actor: Annotated[str, Field(max_length=128, pattern=TEXT)] = ""
    player: Annotated[int, Field(ge=1, lt=ID_LIMIT)] | Literal[""] = ""
    periods: Literal["", "on"] = ""

    def choice(self, environment: str) -> AuditFilter:
        """Return which lines that means."""
        return AuditFilter(
            environment=environment,
            league_wide=True,
            kind=self.kind or None,
            actor=self.actor or None,
            player_id=self.player or None,
            periods=bool(self.periods),
        )

    def address(self, visit: Visit, path: str, **more: str) -> str:
        """Return an address that asks for the same, and for more."""
        return query(path, environment=visit.chosen, **self.model_dump(exclude_defaults=True), **more)


@dataclass(frozen=True)
class Detail:
    """A detail of a line in words; `player_id` where it is a player."""

    name: str
    text: str
    player_id: int | None


@dataclass(frozen=True)
class Lines:
    """A page of the log, newest first; `older` is where it goes on, None where it ends."""

    lines: list[AuditEntry]
    older: str | None


Asking = Annotated[Asked, Query()]


@router.get("/events")
def show(league: Running, visit: Visiting, asked: Asking) -> HTMLResponse:
    """Show the newest lines."""
    with league.database.read() as session:
        page = _page(session, visit, asked, None)
        kinds, actors = audit_log.list_kinds(session), audit_log.list_actors(session)
    values = {"page": page, "asked": asked, "kinds": kinds, "actors": actors, "most": PAGE, "told": told}
    return visit.page("events.html", "events", "Events", **values)


@router.get("/events/older")
def older(league: Running, visit: Visiting, asked: Asking, before: Cursor) -> HTMLResponse:
    """Show the lines before one."""
    with league.database.read() as session:
        page = _page(session, visit, asked, before)
    return visit.part("_events.html", page=page, told=told)


@router.get("/events/newer")
def newer(
    league: Running, visit: Visiting, asked: Asking, after: Annotated[int, Query(ge=0, lt=ID_LIMIT)]
) -> HTMLResponse:
    """Show the lines that came after one, the newest `PAGE` of them: whoever gets so many loads the page anew."""
    with league.database.read() as session:
        lines = audit_log.list_newer_events(session, asked.choice(visit.environment), after, PAGE)
    return visit.part("_events.html", page=Lines(lines, None), told=told)


def told(line: AuditEntry) -> list[Detail]:
    """Return the details of a line; tables of numbers are left to `GET /api/v1/events/history`.

    What the line says elsewhere, its worker, its player and the player's call-sign, is left out.
    """
    return [
        Detail(filters.words(name), line.others.get(name, _short(value)), value if name in line.others else None)
        for name, value in line.details.items()
        if not isinstance(value, Mapping | list) and name not in _SAID and not _is_implied(line, name)
    ]


def _is_implied(line: AuditEntry, name: str) -> bool:
    """Say whether there is nothing to tell of a detail: but nobody is told where the champion is none any more."""
    value = line.details[name]
    if line.kind == "champion" and name == "to":
        return bool(value == line.player_id)
    return value is None


def _short(value: object) -> str:
    if value is None:
        return "nobody"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return filters.count(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _page(session: Session, visit: Visit, asked: Asked, before: int | None) -> Lines:
    found = audit_log.list_events(session, asked.choice(visit.environment), PAGE, before)
    cursor = found.next_cursor
    return Lines(found.items, None if cursor is None else asked.address(visit, "/events/older", before=cursor))


@router.get("/live")
async def follow(
    league: Running, _: Visitor, lasts: VisitorLasts, last_event_id: Annotated[str | None, Header()] = None
) -> StreamingResponse:
    """Follow the league as `GET /api/v1/events` does, until the visitor's token ends."""
    return await events.follow(league, lasts, last_event_id, named=False)
