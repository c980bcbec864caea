"""Players that workers could not play.

One report keeps a player from the worker that made it, for a while. Reports of enough workers quarantine a snapshot,
for everybody; reinstating it is the way back, and what was reported before counts no more.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import bindparam, exists, func, select
from sqlalchemy.orm import Session

from league import wire
from league.config import Settings
from league.db import locks
from league.db.locks import Lock
from league.db.models import Event, Lease, Player, Quarantine, UnplayableReport
from league.db.upsert import insert_into
from league.errors import InvalidRequestError
from league.services import lifecycle

ACTOR = "workers"
_IN_PLAY = ("candidate", "commander")

_REINSTATED_SINCE = exists().where(
    Event.player_id == UnplayableReport.player_id,
    Event.kind == "reinstate",
    Event.created_at >= UnplayableReport.reported_at,
)
_COUNTING = select(UnplayableReport.player_id).where(
    UnplayableReport.reported_at > bindparam("since"), ~_REINSTATED_SINCE
)
_KNOWN_TO = _COUNTING.where(UnplayableReport.worker_id == bindparam("worker_id"))


def known_to(session: Session, settings: Settings, worker_id: str, now: datetime) -> frozenset[int]:
    """Return the ids of the players that are kept from a worker."""
    since = now - timedelta(seconds=settings.unplayable_memory_s)
    return frozenset(session.scalars(_KNOWN_TO, {"worker_id": worker_id, "since": since}))


def report(session: Session, settings: Settings, request: wire.ReleaseRequest, now: datetime) -> list[int]:
    """Note whom a worker could not play; return the snapshots that are quarantined for it.

    Raises:
        InvalidRequestError: None of the worker's leases that are named seats the player.
    """
    if not request.unplayable:
        return []
    locks.hold(session, Lock.EVENTS)  # racing reports see one another
    _require_seated(session, request)
    for each in sorted(request.unplayable, key=lambda unplayable: unplayable.player_id):
        seen = {"reason": each.reason, "reported_at": now}
        row = {"worker_id": request.worker_id, "player_id": each.player_id, **seen}
        statement = insert_into(session, UnplayableReport).values(row)
        session.execute(statement.on_conflict_do_update(index_elements=["worker_id", "player_id"], set_=seen))
    reported = {each.player_id: each.reason for each in request.unplayable}
    condemned = _condemned(session, settings, sorted(reported), now)
    for player_id in condemned:
        reason = f"{settings.unplayable_workers} workers could not play it, the last one: {reported[player_id]}"
        lifecycle.change(session, settings, player_id, "quarantine", actor=ACTOR, reason=reason, now=now)
    return condemned


def _require_seated(session: Session, request: wire.ReleaseRequest) -> None:
    own = Lease.worker_id == request.worker_id, Lease.id.in_(request.lease_ids)
    seats = session.execute(select(Lease.home_id, Lease.away_id).where(*own))
    seated = {player for pair in seats for player in pair}
    for each in request.unplayable:
        if each.player_id not in seated:
            rule = "none of this worker's leases in the call seats it"
            raise InvalidRequestError(f"unplayable player {each.player_id}", rule, "name the lease that it was met on")


def _condemned(session: Session, settings: Settings, player_ids: Sequence[int], now: datetime) -> list[int]:
    """Return whom enough workers could not play that are trusted themselves."""
    since = now - timedelta(seconds=settings.unplayable_memory_s)
    counting = _COUNTING.join(Player, Player.id == UnplayableReport.player_id)
    in_play = Player.id.in_(player_ids), Player.standing.in_(_IN_PLAY)
    distrusted = exists().where(Quarantine.worker_id == UnplayableReport.worker_id, Quarantine.lifted_at.is_(None))
    enough = func.count() >= settings.unplayable_workers
    condemned = counting.where(*in_play, ~distrusted).group_by(UnplayableReport.player_id).having(enough)
    return list(session.scalars(condemned, {"since": since}))
