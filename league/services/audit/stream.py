"""Event stream: its start, and the results that it sends in addition to the audit log."""

from sqlalchemy import func, select

from league.db.engine import Database
from league.db.models import Event, Match
from league.services.audit.log import AuditEntry
from league.services.matches import log as match_log


def latest(database: Database) -> tuple[int, int]:
    """Return the last event id and the last settled match id, or 0 without any."""
    with database.read() as session:
        event_id = session.scalar(select(func.max(Event.id))) or 0
        any_match = session.scalar(select(Match.id).limit(1)) is not None
    match_id = 0
    # Writers may hold the lock for longer than one wait; the stream must not start before a settled id.
    while any_match and match_id == 0:
        match_id = match_log.settled_after(database, 0)
    return event_id, match_id


def read_results_after(database: Database, match_id: int) -> list[AuditEntry]:
    """Count the matches after an id by environment; the id of an entry is that of its last match."""
    columns = Match.environment, func.count(), func.max(Match.id), func.max(Match.reported_at)
    fresh = Match.id > match_id, Match.id <= match_log.settled_after(database, match_id)
    with database.read() as session:
        rows = session.execute(select(*columns).where(*fresh).group_by(Match.environment)).all()
    counts = [
        AuditEntry(
            id=last_id,
            kind="result",
            environment=environment,
            player_id=None,
            player=None,
            actor="workers",
            reason="",
            details={"matches": count},
            others={},
            created_at=reported_at,
        )
        for environment, count, last_id, reported_at in rows
    ]
    return sorted(counts, key=lambda event: event.id)
