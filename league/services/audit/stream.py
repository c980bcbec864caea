"""The stream of events: where it begins, and the results that it carries beside the audit log."""

from sqlalchemy import func, select

from league import wire
from league.db.engine import Database
from league.db.models import Event, Match
from league.services.matches import log as match_log


def latest(database: Database) -> tuple[int, int]:
    """Return the last event's id and the id of a match after which all others are still to come; 0 where none is."""
    with database.read() as session:
        event_id = session.scalar(select(func.max(Event.id))) or 0
        any_match = session.scalar(select(Match.id).limit(1)) is not None
    match_id = 0
    while any_match and match_id == 0:
        match_id = match_log.settled_after(database, 0)
    return event_id, match_id


def results_since(database: Database, match_id: int) -> list[wire.Event]:
    """Tell, per environment, of the matches that came in after a match; the id is that of the last one."""
    columns = Match.environment, func.count(), func.max(Match.id), func.max(Match.reported_at)
    fresh = Match.id > match_id, Match.id <= match_log.settled_after(database, match_id)
    with database.read() as session:
        rows = session.execute(select(*columns).where(*fresh).group_by(Match.environment)).all()
    told = [
        wire.Event(
            id=last_id,
            kind="result",
            environment=environment,
            player_id=None,
            actor="workers",
            reason="",
            details={"matches": count},
            created_at=reported_at,
        )
        for environment, count, last_id, reported_at in rows
    ]
    return sorted(told, key=lambda event: event.id)
