"""Reports that a snapshot is unplayable: storage, resolution and listing.

A report counts for its worker's owner, a token. It is open until it is resolved, see `false_reports`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Select, and_, case, exists, null, or_, select, update
from sqlalchemy.orm import Session, aliased

from league import wire
from league.db.models import Match, Player, Quarantine, Token, UnplayableReport, Worker
from league.db.models.base import Resolution
from league.db.upsert import insert_into
from league.pagination import Page
from league.services.audit import log as audit_log
from league.services.audit.log import Cause

FALSE: tuple[Resolution, ...] = ("refuted", "dismissed")

_FORFEIT = "forfeit"  # arena.play.runner.FORFEIT, in a module that loads torch
_MOMENT = timedelta(microseconds=1)
_KNOWN_FALSE = UnplayableReport.resolution.in_(FALSE)


@dataclass(frozen=True)
class Reporter:
    """Worker that sends a report, and the token that owns it, or None."""

    worker_id: str
    worker: str
    owner: str | None


def add(
    session: Session,
    reporter: Reporter,
    named: Sequence[wire.UnplayablePlayer],
    sound: Collection[int],
    now: datetime,
) -> list[wire.UnplayablePlayer]:
    """Store reports; return the first open report per owner and player.

    A repeated false report remains false. A local one is stored as cleared.

    Args:
        session: A write transaction.
        reporter: Sender of the reports.
        named: Reasons by player.
        sound: Players whose checkpoints passed the server's inspection.
        now: The time of the call.
    """
    known = _open_about(session, reporter.owner, [each.player_id for each in named])
    # A worker must not reopen a dismissed report by sending it again.
    again = case((_KNOWN_FALSE, UnplayableReport.resolution), else_=null())
    resolved_at = case((_KNOWN_FALSE, UnplayableReport.resolved_at), else_=null())
    # Sorted: two calls of a worker that lock the same rows in other orders could deadlock.
    for each in sorted(named, key=lambda unplayable: unplayable.player_id):
        checked = each.player_id in sound
        seen = {"reason": each.reason, "owner": reporter.owner, "checked": checked, "reported_at": now}
        # Resolved before it is made: it keeps the player from this worker, and counts for no other.
        cleared = {"resolution": "cleared", "resolved_at": now - _MOMENT} if each.local else {}
        row = {"worker_id": reporter.worker_id, "player_id": each.player_id, **seen, **cleared}
        changed = {**seen, "resolution": again, "resolved_at": resolved_at, **cleared}
        statement = insert_into(session, UnplayableReport).values(row)
        session.execute(statement.on_conflict_do_update(index_elements=["worker_id", "player_id"], set_=changed))
    return [each for each in named if each.player_id not in known]


def record(session: Session, reporter: Reporter, named: wire.UnplayablePlayer, now: datetime) -> None:
    """Record a report in the audit log."""
    player = session.get_one(Player, named.player_id)
    audit_log.record(
        session,
        "report",
        Cause(reporter.owner or "workers", named.reason, now),
        environment=player.environment,
        player_id=player.id,
        details={"worker_id": reporter.worker_id, "worker": reporter.worker, "token": reporter.owner},
    )


def counting() -> tuple[ColumnElement[bool], ...]:
    """Return the SQL conditions of a counting report: open, from a worker and a token in good standing."""
    distrusted = exists().where(Quarantine.worker_id == UnplayableReport.worker_id, Quarantine.lifted_at.is_(None))
    revoked = exists().where(Token.name == UnplayableReport.owner, Token.revoked_at.is_not(None))
    other = aliased(UnplayableReport)
    reports_falsely = exists().where(other.owner == UnplayableReport.owner, other.resolution.in_(FALSE))
    trusted = or_(UnplayableReport.owner.is_(None), and_(~revoked, ~reports_falsely))
    return UnplayableReport.resolution.is_(None), ~distrusted, trusted


def counted(session: Session, player_ids: Collection[int], since: datetime | None = None) -> "list[UnplayableReport]":
    """Return the counting reports about players since a time."""
    query = select(UnplayableReport).where(UnplayableReport.player_id.in_(player_ids), *counting())
    query = query if since is None else query.where(UnplayableReport.reported_at > since)
    return list(session.scalars(query.order_by(UnplayableReport.player_id, UnplayableReport.worker_id)))


def played_by_others(session: Session, player_id: int, owners: Collection[str | None]) -> bool:
    """Return True if a worker of another owner has finished a match with a player."""
    # Not `==`: workers without an owner, as in an open league, have the same one (NULL).
    own = or_(*(Worker.owner.is_not_distinct_from(each) for each in owners))
    for side in (Match.home_id, Match.away_id):
        matches = select(Match.id).join(Worker, Worker.id == Match.worker_id).where(side == player_id, *played())
        if session.scalar(matches.where(~own).limit(1)) is not None:
            return True
    return False


def played() -> tuple[ColumnElement[bool], ...]:
    """Return the SQL conditions of a match that shows that its players are playable."""
    distrusted = exists().where(Quarantine.worker_id == Match.worker_id, Quarantine.lifted_at.is_(None))
    return Match.reason != _FORFEIT, ~distrusted


def resolve(
    session: Session,
    player_id: int,
    resolution: Resolution,
    now: datetime,
    among: Sequence[Resolution | None] = (None,),
) -> list[wire.PlayerReport]:
    """Resolve a player's reports that are open or have one of the given resolutions; return them."""
    wanted = or_(*(UnplayableReport.resolution.is_not_distinct_from(each) for each in among))
    chosen = UnplayableReport.player_id == player_id, wanted
    found = _bodies(session, select(UnplayableReport).where(*chosen))
    session.execute(update(UnplayableReport).where(*chosen).values(resolution=resolution, resolved_at=now))
    return found


def list_reports(session: Session, player_id: int, limit: int, offset: int = 0) -> Page[wire.PlayerReport]:
    """List the reports about a player, newest first, after the first `offset`."""
    return Page.at(
        _bodies(session, select(UnplayableReport).where(UnplayableReport.player_id == player_id)), offset, limit
    )


def list_flags(session: Session, player_id: int, limit: int) -> list[wire.PlayerReport]:
    """List the reports that flag a player, newest first: open ones that count."""
    query = select(UnplayableReport).where(UnplayableReport.player_id == player_id, *counting())
    return _bodies(session, query.limit(limit))


def details(found: Sequence[wire.PlayerReport]) -> dict[str, list[str]]:
    """Return the senders of reports for an event."""
    return {
        "worker_ids": sorted({each.worker_id for each in found}),
        "tokens": sorted({each.token for each in found if each.token is not None}),
    }


def _open_about(session: Session, owner: str | None, player_ids: Sequence[int]) -> set[int]:
    same = UnplayableReport.owner.is_not_distinct_from(owner), UnplayableReport.resolution.is_(None)
    query = select(UnplayableReport.player_id).where(*same, UnplayableReport.player_id.in_(player_ids))
    return set(session.scalars(query))


def _bodies(session: Session, query: "Select[UnplayableReport]") -> list[wire.PlayerReport]:
    joined = query.join(Worker, Worker.id == UnplayableReport.worker_id).add_columns(Worker.name)
    newest = joined.order_by(UnplayableReport.reported_at.desc(), UnplayableReport.worker_id)
    return [
        wire.PlayerReport.of(report, worker=worker, token=report.owner) for report, worker in session.execute(newest)
    ]
