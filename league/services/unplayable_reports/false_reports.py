"""False reports that a snapshot is unplayable, and the tokens that sent them.

A token with a false report is flagged: its reports have no effect until an admin clears it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from league import wire
from league.db import locks
from league.db.locks import Lock
from league.db.models import Learner, Match, Player, Token, UnplayableReport, Worker
from league.db.models.base import Resolution
from league.errors import InvalidRequestError, UnknownPlayerError, UnknownTokenError
from league.services.audit import log as audit_log
from league.services.audit.log import RULE, Cause
from league.services.unplayable_reports import reports
from league.services.unplayable_reports.reports import FALSE


def of_tokens(session: Session) -> dict[str, int]:
    """Return the number of false reports per flagged token."""
    false = UnplayableReport.resolution.in_(FALSE), UnplayableReport.owner.is_not(None)
    query = select(UnplayableReport.owner, func.count()).where(*false).group_by(UnplayableReport.owner)
    return {str(owner): count for owner, count in session.execute(query)}


def dismiss(session: Session, player_id: int, cause: Cause) -> list[wire.PlayerReport]:
    """Resolve a player's open reports as false, and flag the tokens that made them.

    Raises:
        UnknownPlayerError: The player does not exist.
        InvalidRequestError: It has no open report.
    """
    locks.acquire(session, Lock.EVENTS)
    player = session.get(Player, player_id)
    if player is None:
        raise UnknownPlayerError(player_id, "no player has this id", "list them with GET /players")
    found = _dismiss(session, player, (None,), cause)
    if not found:
        rule = "it has no open unplayable report"
        raise InvalidRequestError(f"player {player_id}", rule, "`league show` lists the reports about a player")
    return found


def dismiss_reinstated(session: Session, player: Player, cause: Cause) -> None:
    """Resolve unconfirmed reports as false after an admin lifted the quarantine that they led to."""
    _dismiss(session, player, (None, "corroborated"), Cause(cause.actor, f"reinstated: {cause.reason}", cause.now))


def _dismiss(
    session: Session, player: Player, among: Sequence[Resolution | None], cause: Cause
) -> list[wire.PlayerReport]:
    # Only newly flagged tokens get an audit entry.
    before = of_tokens(session).keys()
    found = reports.resolve(session, player.id, "dismissed", cause.now, among)
    if found:
        details = reports.details(found)
        audit_log.record(
            session, "dismiss", cause, environment=player.environment, player_id=player.id, details=details
        )
        _flag(session, {each.token for each in found} - before, player, cause)
    return found


def refute(session: Session, environment: str, after: int, until: int, now: datetime) -> None:
    """Resolve reports as refuted if the matches of a period show that their player is playable.

    This requires an intact checkpoint and at least as many other owners that finished matches with the player as owners
    that reported it. The owner of the player's learner does not count, because it could publish unplayable weights to
    get reporting tokens flagged. `after` and `until` bound the ids of the matches.
    """
    query = select(UnplayableReport).join(Player, Player.id == UnplayableReport.player_id)
    of_sound = Player.environment == environment, UnplayableReport.checked
    reported: dict[int, set[str | None]] = {}
    for row in session.scalars(query.where(*of_sound, *reports.counting())):
        reported.setdefault(row.player_id, set()).add(row.owner)
    if reported:
        locks.acquire(session, Lock.EVENTS)  # before rows of reports change, in the order of `unplayable.report`
    for player_id, owners in sorted(reported.items()):
        others = _players_of(session, player_id, after, until) - owners - _publishers_of(session, player_id)
        if len(others) >= len(owners):
            player, before = session.get_one(Player, player_id), of_tokens(session).keys()
            reports.resolve(session, player_id, "refuted", now)
            _flag(session, owners - before, player, Cause(RULE, f"played by {_named(others)}", now))


def clear(session: Session, token: str, cause: Cause) -> int:
    """Clear a token's false reports; return their number.

    Raises:
        UnknownTokenError: The token does not exist.
        InvalidRequestError: It has no false reports.
    """
    locks.acquire(session, Lock.EVENTS)
    if session.scalar(select(Token.id).where(Token.name == token)) is None:
        raise UnknownTokenError(token, "no token has this name", "`league token list` lists them all")
    found = of_tokens(session).get(token, 0)
    if not found:
        raise InvalidRequestError(f"token {token!r}", "it has no false reports", "no action is required")
    own = UnplayableReport.owner == token, UnplayableReport.resolution.in_(FALSE)
    session.execute(update(UnplayableReport).where(*own).values(resolution="cleared", resolved_at=cause.now))
    audit_log.record(session, "token", cause, details={"change": "cleared", "token": token, "reports": found})
    return found


def _players_of(session: Session, player_id: int, after: int, until: int) -> set[str | None]:
    """Return the owners of the workers that played a player among some matches."""
    seated = or_(Match.home_id == player_id, Match.away_id == player_id)
    period = Match.id > after, Match.id <= until, *reports.played()
    query = select(Worker.owner).join(Match, Match.worker_id == Worker.id).where(seated, *period)
    return set(session.scalars(query.distinct()))


def _publishers_of(session: Session, player_id: int) -> set[str | None]:
    """Return the owner of a snapshot's learner; empty for other players."""
    query = select(Learner.owner).join(Player, Player.learner_id == Learner.id).where(Player.id == player_id)
    return set(session.scalars(query))


def _flag(session: Session, owners: Collection[str | None], player: Player, cause: Cause) -> None:
    for token in sorted(owner for owner in owners if owner is not None):
        details = {"change": "flagged", "token": token}
        audit_log.record(session, "token", cause, environment=player.environment, player_id=player.id, details=details)


def _named(owners: Collection[str | None]) -> str:
    """Return owners as text."""
    tokens = sorted(owner for owner in owners if owner is not None)
    others = ["workers without a token"] if None in owners else []
    return ", ".join([*(f"token {token!r}" for token in tokens), *others])
