"""The audit log: append, filter and list events, with the names of the players in them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from league.db import locks
from league.db.bulk_insert import among
from league.db.locks import Lock
from league.db.models import Event, Player
from league.pagination import Page, paginate
from league.player_names import display_name

_PLAYERS = {"champion": ("from", "to"), "gate": ("against",)}
"""Details that are player ids, by kind of event."""

RULE = "rule"
"""Actor of automatic changes."""


@dataclass(frozen=True)
class AuditFilter:
    """Conditions on the listed events.

    Attributes:
        environment: None for all.
        league_wide: Whether to include events without an environment, such as those of tokens.
        kind: None for all but closed periods, which are numerous.
        actor: None for all.
        player_id: None for all.
        periods: Whether to include closed periods if `kind` is None.
    """

    environment: str | None = None
    league_wide: bool = False
    kind: str | None = None
    actor: str | None = None
    player_id: int | None = None
    periods: bool = False

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions of a query."""
        found: list[ColumnElement[bool]] = []
        if self.environment is not None:
            own = Event.environment == self.environment
            found.append(or_(own, Event.environment.is_(None)) if self.league_wide else own)
        if self.kind is None and not self.periods:
            found.append(Event.kind != "period")
        equalities = (Event.kind, self.kind), (Event.actor, self.actor), (Event.player_id, self.player_id)
        return found + [column == value for column, value in equalities if value is not None]


@dataclass(frozen=True)
class AuditEntry:
    """An audit event with its player, actor and reason.

    Attributes:
        player: Call-sign or name of the player.
        others: Call-signs or names of the players in details, by the name of the detail.
    """

    id: int
    kind: str
    environment: str | None
    player_id: int | None
    player: str | None
    actor: str
    reason: str
    details: Mapping[str, Any]
    others: Mapping[str, str]
    created_at: datetime


@dataclass(frozen=True)
class Cause:
    """Actor, reason and time of a change, with details for its audit entry."""

    actor: str
    reason: str
    now: datetime
    details: Mapping[str, Any] = field(default_factory=dict)


def record(
    session: Session,
    kind: str,
    cause: Cause,
    *,
    environment: str | None = None,
    player_id: int | None = None,
    details: Mapping[str, Any] | None = None,
) -> int:
    """Append an event to the audit log as the last statement of a transaction; return its id."""
    # Ids of events must commit in ascending order, or a reader of the stream would skip one.
    locks.acquire(session, Lock.EVENTS)
    event = Event(
        kind=kind,
        environment=environment,
        player_id=player_id,
        actor=cause.actor,
        reason=cause.reason,
        details={**cause.details, **(details or {})},
        created_at=cause.now,
    )
    session.add(event)
    session.flush()
    return event.id


def list_events(session: Session, wanted: AuditFilter, limit: int, cursor: int | None = None) -> Page[AuditEntry]:
    """List events newest first, before the cursor."""
    query = paginate(_selected().where(*wanted.conditions()), Event.id, cursor, limit, newest_first=True)
    return Page.cut(_entries(session, query), limit, attrgetter("id"))


def list_newer_events(session: Session, wanted: AuditFilter, after: int, limit: int) -> list[AuditEntry]:
    """List the newest events after a given one, newest first."""
    query = _selected().where(*wanted.conditions(), Event.id > after)
    return _entries(session, query.order_by(Event.id.desc()).limit(limit))


def read_after(session: Session, event_id: int, limit: int, kinds: Collection[str] | None = None) -> list[AuditEntry]:
    """Read the log after an event, oldest first; only events of some kinds, or None for all."""
    wanted = _selected().where(Event.id > event_id)
    if kinds is not None:
        wanted = wanted.where(Event.kind.in_(kinds))
    return _entries(session, wanted.order_by(Event.id).limit(limit))


def list_player_events(session: Session, players: Sequence[int], kinds: Sequence[str]) -> dict[int, list[AuditEntry]]:
    """List the events of some kinds, oldest first, by player; players without any are left out."""
    query = _selected().where(among(session, Event.player_id, players), Event.kind.in_(kinds)).order_by(Event.id)
    found: dict[int, list[AuditEntry]] = {}
    for entry in _entries(session, query):
        found.setdefault(entry.player_id or 0, []).append(entry)
    return found


def list_kinds(session: Session) -> Sequence[str]:
    """List the kinds of events in the log, in alphabetical order."""
    return _distinct(session, Event.kind)


def list_actors(session: Session) -> Sequence[str]:
    """List the actors in the log, in alphabetical order."""
    return _distinct(session, Event.actor)


def _selected() -> Select[Any]:
    columns = Event.id, Event.kind, Event.environment, Event.player_id, Event.actor, Event.reason, Event.details
    named = select(*columns, Event.created_at, Player.call_sign, Player.name)
    return named.outerjoin(Player, Player.id == Event.player_id)


def _entries(session: Session, query: Select[Any]) -> list[AuditEntry]:
    rows = session.execute(query).all()
    named = [{key: row.details.get(key) for key in _PLAYERS.get(row.kind, ())} for row in rows]
    names = _names(session, {each for ids in named for each in ids.values() if each is not None})
    return [
        AuditEntry(
            id=row.id,
            kind=row.kind,
            environment=row.environment,
            player_id=row.player_id,
            player=display_name(row),
            actor=row.actor,
            reason=row.reason,
            details=row.details,
            others={key: names[each] for key, each in ids.items() if each in names},
            created_at=row.created_at,
        )
        for row, ids in zip(rows, named, strict=True)
    ]


def _names(session: Session, ids: Collection[int]) -> dict[int, str]:
    if not ids:
        return {}
    query = select(Player.id, Player.call_sign, Player.name).where(among(session, Player.id, sorted(ids)))
    return {row.id: display_name(row) for row in session.execute(query)}


def _distinct(session: Session, column: InstrumentedAttribute[str]) -> Sequence[str]:
    """Read the distinct values of an indexed column with one index look-up per value.

    DISTINCT would read every row. PostgreSQL's wiki describes this recursive CTE as "loose indexscan".
    """
    least = select(func.min(column).label("value")).cte("values_in_order", recursive=True)
    # The next distinct value after the current one: each step is one seek in the index.
    following = select(func.min(column)).where(column > least.c.value).correlate(least).scalar_subquery()
    found = least.union_all(select(following).where(least.c.value.is_not(None)))
    return session.scalars(select(found.c.value).where(found.c.value.is_not(None)).order_by(found.c.value)).all()
