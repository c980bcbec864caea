"""Reports of unplayable players, and the quarantine that may follow.

A report excludes the player from leases of the reporting worker for a while. For other workers:

* The server checks the stored bytes itself. If they are broken, the snapshot is quarantined at once.
* If they are sound, a candidate is quarantined once workers of several tokens report it, unless a worker of another
  token has played it.
* A report whose cause is local to the worker, such as a missing package, counts for nothing else.
* Commanders, and players that only one token reports, are flagged until an admin quarantines the player or dismisses
  the reports.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import bindparam, or_, select
from sqlalchemy.orm import Session

from league import wire
from league.db import locks
from league.db.locks import Lock
from league.db.models import Lease, Player, UnplayableReport
from league.errors import InvalidRequestError, StoreUnavailableError, UnknownCheckpointError
from league.services.audit.log import Cause
from league.services.lifecycle import transitions
from league.services.unplayable_reports import reports
from league.services.unplayable_reports.reports import Reporter
from league.services.workers import service as workers
from league.settings import Settings
from league.storage.inspection import Inspector

SERVER, WORKERS = "server", "workers"
"""Actors of quarantines: the server's own check, and workers of several tokens."""

Findings = Mapping[int, str | None]
"""Fault found by the server's check, by player; None if sound. Unchecked players are missing."""

_KNOWN_TO = select(UnplayableReport.player_id).where(
    UnplayableReport.worker_id == bindparam("worker_id"),
    UnplayableReport.reported_at > bindparam("since"),
    or_(UnplayableReport.resolved_at.is_(None), UnplayableReport.reported_at > UnplayableReport.resolved_at),
)


def known_to(session: Session, settings: Settings, worker_id: str, now: datetime) -> frozenset[int]:
    """Return the ids of the players that are excluded from a worker's leases."""
    since = now - timedelta(seconds=settings.unplayable_memory_s)
    return frozenset(session.scalars(_KNOWN_TO, {"worker_id": worker_id, "since": since}))


def checkpoints(session: Session, request: wire.ReleaseRequest) -> dict[int, str]:
    """Return the checkpoints of the snapshots that a worker reports, by player.

    Raises:
        InvalidRequestError: No lease of the worker in the request contains the player.
    """
    _require_seated(session, request)
    named = Player.id.in_([each.player_id for each in request.unplayable])
    rows = session.execute(select(Player.id, Player.checkpoint).where(named, Player.kind == "snapshot"))
    return {player_id: checkpoint for player_id, checkpoint in rows if checkpoint is not None}


def examine(inspector: Inspector, checkpoints: Mapping[int, str]) -> dict[int, str | None]:
    """Check stored bytes outside of any transaction; snapshots with unavailable bytes are omitted."""
    findings: dict[int, str | None] = {}
    for player_id, sha256 in checkpoints.items():
        try:
            findings[player_id] = inspector.find_fault(sha256)
        # A report must not be judged by a store that does not respond; without a finding it is only a report.
        except (StoreUnavailableError, UnknownCheckpointError, TimeoutError):
            continue
    return findings


def report(
    session: Session, settings: Settings, request: wire.ReleaseRequest, findings: Findings, now: datetime
) -> list[int]:
    """Store a worker's reports of unplayable players; return the snapshots that are quarantined as a result.

    Raises:
        InvalidRequestError: No lease of the worker in the request contains the player.
    """
    if not request.unplayable:
        return []
    locks.acquire(session, Lock.EVENTS)  # serialises concurrent reports, so that the last one sees all others
    _require_seated(session, request)
    worker = workers.require(session, request.worker_id)
    reporter = Reporter(worker.id, worker.name, worker.owner)
    sound = {player_id for player_id, finding in findings.items() if finding is None}
    fresh = reports.add(session, reporter, request.unplayable, sound, now)
    counting = {row.player_id for row in reports.counted(session, [each.player_id for each in fresh])}
    for each in fresh:
        if each.player_id in counting:
            reports.record(session, reporter, each, now)
    reasons = {each.player_id: each.reason for each in request.unplayable}
    return [
        player_id
        for player_id in sorted(reasons)
        if _quarantine_broken(session, settings, player_id, findings.get(player_id), now)
        or _quarantine_corroborated(session, settings, player_id, reasons[player_id], player_id in sound, now)
    ]


def _quarantine_broken(
    session: Session, settings: Settings, player_id: int, finding: str | None, now: datetime
) -> bool:
    """Quarantine a snapshot with a fault found by the server, regardless of its standing."""
    if finding is None:
        return False
    found = reports.resolve(session, player_id, "confirmed", now)
    player = session.get_one(Player, player_id)
    if player.standing not in transitions.TRANSITIONS["quarantine"].origins:
        return False
    reason = f"the server's check found: {finding}"
    details = {"finding": finding, **reports.details(found)}
    transitions.transition(session, settings, player_id, "quarantine", Cause(SERVER, reason, now, details))
    return True


def _quarantine_corroborated(
    session: Session, settings: Settings, player_id: int, reason: str, sound: bool, now: datetime
) -> bool:
    """Quarantine a candidate that workers of several tokens could not play and none of another token has played."""
    player = session.get_one(Player, player_id)
    if player.standing != "candidate" or not (sound or player.kind == "external"):
        return False
    since = now - timedelta(seconds=settings.unplayable_memory_s)
    owners = {row.owner for row in reports.counted(session, [player_id], since)}
    if len(owners) < settings.unplayable_tokens or reports.played_by_others(session, player_id, owners):
        return False
    found = reports.resolve(session, player_id, "corroborated", now)
    summary = f"workers of {len(owners)} tokens could not play it; latest reason: {reason}"
    details = reports.details(found)
    transitions.transition(session, settings, player_id, "quarantine", Cause(WORKERS, summary, now, details))
    return True


def _require_seated(session: Session, request: wire.ReleaseRequest) -> None:
    own = Lease.worker_id == request.worker_id, Lease.id.in_(request.lease_ids)
    seats = session.execute(select(Lease.home_id, Lease.away_id).where(*own))
    seated = {player for pair in seats for player in pair}
    for each in request.unplayable:
        if each.player_id not in seated:
            rule = "it is not the opponent in any of the worker's leases in this call"
            raise InvalidRequestError(
                f"unplayable player {each.player_id}", rule, "pass the lease in which it was the opponent"
            )
