"""Standings and the champion change by compare-and-set, each change with an actor and a reason in the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from arena.callsigns import free_call_sign
from league import wire
from league.db import locks
from league.db.locks import Lock
from league.db.models import Player
from league.errors import ChampionConflictError, StandingConflictError
from league.services.audit import log as audit_log
from league.services.lifecycle import champions
from league.services.player_names import display_name
from league.services.ratings import rated_players
from league.services.unplayable_reports import false_reports, reports
from league.settings import Settings
from league.wire import Standing

Change = Literal["promote", "retire", "reinstate", "quarantine"]


@dataclass(frozen=True)
class Cause:
    """Who changes something, why, and when; with details for the audit log."""

    actor: str
    reason: str
    now: datetime
    details: Mapping[str, Any] = field(default_factory=dict)


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


def allowed_of(kind: str) -> tuple[Change, ...]:
    """Name the changes that a kind of player may go through, wherever it stands."""
    if kind == "external":
        return "retire", "reinstate", "quarantine"
    return tuple(TRANSITIONS) if kind == "snapshot" else ()


def transition(
    session: Session,
    settings: Settings,
    player_id: int,
    name: Change,
    *,
    actor: str,
    reason: str,
    now: datetime,
    expected: Standing | None = None,
    details: Mapping[str, Any] | None = None,
) -> wire.Player:
    """Change a snapshot's standing, if it is in one that allows it. A champion that ceases to be a commander is none.

    Quarantining confirms open reports that it cannot be played; reinstating it from quarantine dismisses them.

    Args:
        session: A write transaction.
        settings: What players are shown under.
        player_id: Whose standing.
        name: What to do.
        actor: Who does it.
        reason: Why.
        now: The time of the change.
        expected: The standing that the caller saw; None for any that allows the change.
        details: Why, in the audit log; None for nothing more than the reason.

    Raises:
        UnknownPlayerError: There is no such player.
        StandingConflictError: It is a learner or a baseline, its standing does not allow the change, or it is not the
            expected one.
    """
    locks.acquire(session, Lock.EVENTS)
    before = rated_players.require(session, player_id)[0].standing
    player = _set_standing(session, player_id, name, Cause(actor, reason, now, details or {}), expected)
    if name == "quarantine":
        reports.resolve(session, player_id, "confirmed", now)
    if before == "quarantined":
        false_reports.dismiss_reinstated(session, player, actor=actor, reason=reason, now=now)
    if player.standing != "commander" and champions.champion_id(session, player.environment) == player_id:
        _hand_over(session, player.environment, player_id, None, Cause(actor, f"{name}: {reason}", now))
    return rated_players.show(session, settings, player_id)


def set_champion(
    session: Session,
    player_id: int,
    *,
    actor: str,
    reason: str,
    now: datetime,
    expected: int | None,
) -> None:
    """Make a commander, or a candidate that becomes one by it, the champion of its environment.

    Args:
        session: A write transaction.
        player_id: Who is to be champion.
        actor: Who does it.
        reason: Why.
        now: The time of the change.
        expected: Player id of the champion that the caller saw; None for nobody.

    Raises:
        UnknownPlayerError: There is no such player.
        StandingConflictError: It is a learner, a baseline or out of play.
        ChampionConflictError: It is the champion already, or the champion is not the expected one.
    """
    locks.acquire(session, Lock.EVENTS)
    cause = Cause(actor, reason, now)
    player, _ = rated_players.require(session, player_id)
    if player.kind == "external":
        raise _standing_conflict(player, "promote", TRANSITIONS["promote"], None)
    champion = champions.champion_id(session, player.environment)
    if champion == player_id or champion != expected:
        raise _champion_conflict(session, player.environment, champion, player_id, expected)
    if player.standing != "commander":
        _set_standing(session, player_id, "promote", cause)
    _hand_over(session, player.environment, champion, player_id, cause)


def _set_standing(
    session: Session, player_id: int, name: Change, cause: Cause, expected: Standing | None = None
) -> Player:
    transition = TRANSITIONS[name]
    player, _ = rated_players.require(session, player_id)
    if name not in allowed_of(player.kind):
        raise _standing_conflict(player, name, transition, expected)
    before = player.standing
    origins = [origin for origin in transition.origins if expected in (None, origin)]
    allowed = Player.id == player_id, Player.standing.in_(origins)
    moved = session.scalar(update(Player).where(*allowed).values(standing=transition.target).returning(Player.id))
    if moved is None:
        raise _standing_conflict(player, name, transition, expected)
    if name == "promote" and player.call_sign is None:
        player.call_sign = _call_sign(session, player)
    details = {**cause.details, "from": before, "to": transition.target, "call_sign": player.call_sign}
    _record(session, name, player.environment, player_id, details, cause)
    return player


def _hand_over(session: Session, environment: str, old: int | None, new: int | None, cause: Cause) -> None:
    champions.hand_over(session, environment, new, actor=cause.actor, reason=cause.reason, now=cause.now)
    _record(session, "champion", environment, new or old, {"from": old, "to": new}, cause)


def _record(
    session: Session, kind: str, environment: str, player_id: int | None, details: dict[str, Any], cause: Cause
) -> None:
    audit_log.record(
        session,
        kind,
        environment=environment,
        player_id=player_id,
        actor=cause.actor,
        reason=cause.reason,
        details=details,
        now=cause.now,
    )


def _call_sign(session: Session, player: Player) -> str:
    named = select(Player.call_sign).where(Player.environment == player.environment, Player.call_sign.is_not(None))
    return free_call_sign(player.environment, str(player.checkpoint), set(session.scalars(named)))


def _standing_conflict(
    player: Player, name: Change, transition: Transition, expected: Standing | None
) -> StandingConflictError:
    if player.kind == "external" and name == "promote":
        rule = "it is an external player, whose policy the league does not have: nobody could be given it"
        return StandingConflictError(player.id, rule, "train a learner and promote one of its snapshots")
    if player.kind not in ("snapshot", "external"):
        rule = f"it is a {player.kind}, which has no standing"
        return StandingConflictError(player.id, rule, f"{name} one of its snapshots, if it has any")
    allowed = [word for word in allowed_of(player.kind) if player.standing in TRANSITIONS[word].origins]
    wanted = " or ".join(transition.origins)
    rule = f"it is {player.standing}; {name} needs {wanted}"
    if player.standing in transition.origins:
        rule = f"it is {player.standing}, not {expected} as expected"
    return StandingConflictError(player.id, rule, f"from {player.standing} it allows {', '.join(allowed)}")


def _champion_conflict(
    session: Session, environment: str, champion: int | None, wanted: int, expected: int | None
) -> ChampionConflictError:
    rule = f"{'nobody' if champion is None else _described(session, champion)} is champion"
    if champion != wanted:
        rule += f", not {'nobody' if expected is None else f'player {expected}'} as expected"
    return ChampionConflictError(environment, rule, "look at GET /champion and decide anew")


def _described(session: Session, player_id: int) -> str:
    player, _ = rated_players.require(session, player_id)
    return f"player {player_id} ({display_name(player)})"
