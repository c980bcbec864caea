"""Standings change by compare-and-set, each change with an actor and a reason in the audit log."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from arena.callsigns import free_call_sign
from league.config import Settings
from league.db import locks
from league.db.locks import Lock
from league.db.models import Player
from league.errors import StandingConflictError
from league.services import events, standings
from league.wire import Player as PlayerBody
from league.wire import Standing

Change = Literal["promote", "retire", "reinstate", "quarantine"]


@dataclass(frozen=True)
class Transition:
    """Where a change may start and where it leads."""

    origins: tuple[Standing, ...]
    target: Standing


TRANSITIONS: dict[Change, Transition] = {
    "promote": Transition(("candidate",), "commander"),
    "retire": Transition(("candidate", "commander"), "retired"),
    "reinstate": Transition(("retired", "quarantined"), "candidate"),
    "quarantine": Transition(("candidate", "commander", "retired"), "quarantined"),
}


def change(
    session: Session, settings: Settings, player_id: int, name: Change, *, actor: str, reason: str, now: datetime
) -> PlayerBody:
    """Change a snapshot's standing, if it is in one that allows it.

    Raises:
        UnknownPlayerError: There is no such player.
        StandingConflictError: It is a learner or a baseline, or its standing does not allow the change.
    """
    locks.hold(session, Lock.EVENTS)
    transition = TRANSITIONS[name]
    player, _ = standings.require(session, player_id)
    before = player.standing
    allowed = Player.id == player_id, Player.standing.in_(transition.origins)
    moved = session.scalar(update(Player).where(*allowed).values(standing=transition.target).returning(Player.id))
    if moved is None:
        raise _conflict(player, name, transition)
    if name == "promote" and player.call_sign is None:
        player.call_sign = _call_sign(session, player)
    details = {"from": before, "to": transition.target, "call_sign": player.call_sign}
    events.record(
        session,
        name,
        environment=player.environment,
        player_id=player_id,
        actor=actor,
        reason=reason,
        details=details,
        now=now,
    )
    return standings.show(session, settings, player_id)


def _call_sign(session: Session, player: Player) -> str:
    named = select(Player.call_sign).where(Player.environment == player.environment, Player.call_sign.is_not(None))
    return free_call_sign(player.environment, str(player.checkpoint), set(session.scalars(named)))


def _conflict(player: Player, name: Change, transition: Transition) -> StandingConflictError:
    if player.kind != "snapshot":
        rule = f"it is a {player.kind}, which has no standing"
        return StandingConflictError(player.id, rule, f"{name} one of its snapshots, if it has any")
    allowed = [word for word, other in TRANSITIONS.items() if player.standing in other.origins]
    rule = f"it is {player.standing}; {name} needs {' or '.join(transition.origins)}"
    return StandingConflictError(player.id, rule, f"from {player.standing} it allows {', '.join(allowed)}")
