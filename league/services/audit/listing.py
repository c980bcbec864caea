"""The audit log as people read it: of an environment and of the league as a whole, with the names of players."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from league.db.bulk_insert import among
from league.db.models import Event, Player
from league.services.player_names import display_name

_PLAYERS = {"champion": ("from", "to"), "gate": ("against",)}
"""Which details of a kind of line are ids of players."""


@dataclass(frozen=True)
class AuditFilter:
    """Which lines are wanted.

    Attributes:
        environment: Whose; lines that are of none, such as those of tokens, come with each.
        kind: None for all but closed periods, of which there are many.
        actor: Who did it; None for everybody.
        player_id: Of whom; None for all.
        periods: Whether closed periods are wanted among the others.
    """

    environment: str
    kind: str | None = None
    actor: str | None = None
    player_id: int | None = None
    periods: bool = False

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what a line has to meet."""
        found: list[ColumnElement[bool]] = [or_(Event.environment == self.environment, Event.environment.is_(None))]
        if self.kind is not None:
            found.append(Event.kind == self.kind)
        elif not self.periods:
            found.append(Event.kind != "period")
        if self.actor is not None:
            found.append(Event.actor == self.actor)
        if self.player_id is not None:
            found.append(Event.player_id == self.player_id)
        return found


@dataclass(frozen=True)
class AuditEntry:
    """What happened, to whom, by whom and why.

    Attributes:
        player: A call-sign, or a name.
        others: Likewise, of the players that details name by their ids, by the name of the detail.
    """

    id: int
    kind: str
    environment: str | None
    player_id: int | None
    player: str | None
    actor: str
    reason: str
    details: dict[str, Any]
    others: dict[str, str]
    created_at: datetime


def lines(
    session: Session, choice: AuditFilter, limit: int, *, before: int | None = None, after: int | None = None
) -> list[AuditEntry]:
    """Read lines, newest first.

    Args:
        session: A transaction.
        choice: Which.
        limit: Most lines.
        before: Id of an event; only older ones.
        after: Id of an event; only newer ones.
    """
    columns = Event.id, Event.kind, Event.environment, Event.player_id, Event.actor, Event.reason, Event.details
    query = select(*columns, Event.created_at, Player.call_sign, Player.name).outerjoin(
        Player, Player.id == Event.player_id
    )
    query = query.where(*choice.conditions())
    query = query if before is None else query.where(Event.id < before)
    query = query if after is None else query.where(Event.id > after)
    rows = session.execute(query.order_by(Event.id.desc()).limit(limit)).all()
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
    query = select(Player.id, Player.call_sign, Player.name).where(among(session, Player.id, sorted(ids)))
    return {row.id: display_name(row) for row in session.execute(query)}


def kinds(session: Session) -> Sequence[str]:
    """Name the kinds of lines that there are, in order."""
    return _values(session, Event.kind)


def actors(session: Session) -> Sequence[str]:
    """Name those who did something, in order."""
    return _values(session, Event.actor)


def _values(session: Session, column: InstrumentedAttribute[str]) -> Sequence[str]:
    """Read the different values of an indexed column by a look into the index for each, however many rows have it.

    DISTINCT would read every row; PostgreSQL's wiki has this as "loose indexscan".
    """
    least = select(func.min(column).label("value")).cte("values_in_order", recursive=True)
    following = select(func.min(column)).where(column > least.c.value).correlate(least).scalar_subquery()
    found = least.union_all(select(following).where(least.c.value.is_not(None)))
    return session.scalars(select(found.c.value).where(found.c.value.is_not(None)).order_by(found.c.value)).all()
