"""The audit log."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from league import wire
from league.db import locks
from league.db.bulk_insert import among
from league.db.locks import Lock
from league.db.models import Event


def record(
    session: Session,
    kind: str,
    *,
    environment: str | None,
    player_id: int | None,
    actor: str,
    reason: str,
    details: dict[str, Any],
    now: datetime,
) -> int:
    """Write a line into the log, as the last thing of its transaction; return its id."""
    locks.acquire(session, Lock.EVENTS)
    event = Event(
        kind=kind,
        environment=environment,
        player_id=player_id,
        actor=actor,
        reason=reason,
        details=details,
        created_at=now,
    )
    session.add(event)
    session.flush()
    return event.id


def since(session: Session, event_id: int, limit: int) -> list[wire.Event]:
    """Read the log after an event, oldest first."""
    events = session.scalars(select(Event).where(Event.id > event_id).order_by(Event.id).limit(limit))
    return [_body(event) for event in events]


def history(
    session: Session, filters: dict[str, str | int], limit: int, before: int | None, *, periods: bool
) -> list[wire.Event]:
    """Read the log backwards, newest first, before the given event; closed periods, of which there are many, if asked.

    Args:
        session: A transaction.
        filters: Equalities on environment, player_id and kind.
        limit: Most events.
        before: Id of an event; None for the end of the log.
        periods: Whether closed periods are wanted.
    """
    query = select(Event).filter_by(**filters)
    query = query if periods else query.where(Event.kind != "period")
    query = query if before is None else query.where(Event.id < before)
    return [_body(event) for event in session.scalars(query.order_by(Event.id.desc()).limit(limit))]


def of_players(session: Session, players: Sequence[int], kinds: Sequence[str]) -> dict[int, list[wire.Event]]:
    """Read what of these kinds happened to players, oldest first, by player; who is left out, nothing happened to."""
    query = select(Event).where(among(session, Event.player_id, players), Event.kind.in_(kinds)).order_by(Event.id)
    found: dict[int, list[wire.Event]] = {}
    for event in session.scalars(query):
        if event.player_id is not None:
            found.setdefault(event.player_id, []).append(_body(event))
    return found


def _body(event: Event) -> wire.Event:
    return wire.Event(
        id=event.id,
        kind=event.kind,
        environment=event.environment,
        player_id=event.player_id,
        actor=event.actor,
        reason=event.reason,
        details=event.details,
        created_at=event.created_at,
    )
