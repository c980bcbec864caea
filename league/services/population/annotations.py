"""Tags and notes of players, for people."""

from sqlalchemy import delete
from sqlalchemy.orm import Session

from league import wire
from league.db import locks
from league.db.locks import Lock
from league.db.models import PlayerTag
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.ratings import rated_players
from league.settings import Settings


def update(
    session: Session, settings: Settings, player_id: int, request: wire.PlayerUpdate, cause: Cause
) -> wire.Player:
    """Replace the tags or the note of a player; a change goes to the audit log.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    locks.acquire(session, Lock.EVENTS)
    player, _ = rated_players.require(session, player_id)
    old_tags = rated_players.get_tags(session, PlayerTag.player_id == player_id).get(player_id, [])
    old_note = player.note
    if request.note is not None:
        player.note = request.note or None
    if request.tags is not None:
        session.execute(delete(PlayerTag).where(PlayerTag.player_id == player_id))
        session.add_all(PlayerTag(player_id=player_id, tag=tag) for tag in sorted(set(request.tags)))
    session.flush()
    after = rated_players.show(session, settings, player_id)
    details = {
        name: {"from": old, "to": new}
        for name, old, new in (("tags", old_tags, after.tags), ("note", old_note, after.note))
        if old != new
    }
    if details:
        audit_log.record(
            session, "annotate", cause, environment=player.environment, player_id=player_id, details=details
        )
    return after
