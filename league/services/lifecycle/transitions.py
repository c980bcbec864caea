"""Compare-and-set changes of standings and the champion, recorded in the audit log with actor and reason."""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from arena.population.callsigns import free_call_sign
from league import wire
from league.db import locks
from league.db.locks import Lock
from league.db.models import Player
from league.errors import ChampionConflictError, StandingConflictError
from league.player_names import display_name
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.lifecycle import champions
from league.services.ratings import rated_players
from league.services.unplayable_reports import false_reports, reports
from league.settings import Settings
from league.wire import Standing

Change = Literal["promote", "retire", "reinstate", "quarantine"]


@dataclass(frozen=True)
class Transition:
    """Allowed source standings and the target standing of a change."""

    origins: tuple[Standing, ...]
    target: Standing


TRANSITIONS: dict[Change, Transition] = {
    "promote": Transition(("candidate",), "commander"),
    "retire": Transition(("candidate", "commander"), "retired"),
    "reinstate": Transition(("retired", "quarantined"), "candidate"),
    "quarantine": Transition(("candidate", "commander", "retired"), "quarantined"),
}


def allowed_of(kind: str) -> tuple[Change, ...]:
    """Return the changes of a kind of player, regardless of its standing."""
    if kind == "external":
        return "retire", "reinstate", "quarantine"
    return tuple(TRANSITIONS) if kind == "snapshot" else ()


def transition(
    session: Session,
    settings: Settings,
    player_id: int,
    name: Change,
    cause: Cause,
    expected: Standing | None = None,
) -> wire.Player:
    """Change a snapshot's standing if it allows the change. A champion that is no longer a commander loses the title.

    Quarantining a player confirms its open unplayable reports; reinstating it from quarantine dismisses them.

    Args:
        session: A write transaction.
        settings: Settings of the league.
        player_id: The player.
        name: The change.
        cause: Actor, reason and time, with further details for the audit log.
        expected: The expected standing; None for any that allows the change.

    Raises:
        UnknownPlayerError: The player does not exist.
        StandingConflictError: The player has no standing, or one that is not expected or does not allow the change.
    """
    locks.acquire(session, Lock.EVENTS)
    # Read under the lock, so that a concurrent change cannot come between this and the update.
    before = rated_players.require(session, player_id)[0].standing
    player = _set_standing(session, player_id, name, cause, expected)
    if name == "quarantine":
        reports.resolve(session, player_id, "confirmed", cause.now)
    if before == "quarantined":
        false_reports.dismiss_reinstated(session, player, cause)
    # In the same transaction, so that no reader sees a champion that is out of play.
    if player.standing != "commander" and champions.champion_id(session, player.environment) == player_id:
        lost = Cause(cause.actor, f"{name}: {cause.reason}", cause.now)
        _set_holder(session, player.environment, player_id, None, lost)
    return rated_players.show(session, settings, player_id)


def set_champion(session: Session, player_id: int, cause: Cause, expected: int | None) -> None:
    """Make a commander, or a candidate that is promoted by this, the champion of its environment.

    Args:
        session: A write transaction.
        player_id: The new champion.
        cause: Actor, reason and time for the audit log.
        expected: Player id of the expected champion; None for no champion.

    Raises:
        UnknownPlayerError: The player does not exist.
        StandingConflictError: The player is not an active snapshot.
        ChampionConflictError: The player is already the champion, or the champion is not the expected one.
    """
    locks.acquire(session, Lock.EVENTS)
    player, _ = rated_players.require(session, player_id)
    if player.kind == "external":
        raise _standing_conflict(player, "promote", TRANSITIONS["promote"], None)
    champion = champions.champion_id(session, player.environment)
    if champion == player_id or champion != expected:
        raise _champion_conflict(session, player.environment, champion, player_id, expected)
    if player.standing != "commander":
        _set_standing(session, player_id, "promote", cause)
    _set_holder(session, player.environment, champion, player_id, cause)


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
    # The condition is part of the UPDATE, so of two concurrent changes only one finds the standing that it expects.
    moved = session.scalar(update(Player).where(*allowed).values(standing=transition.target).returning(Player.id))
    if moved is None:
        raise _standing_conflict(player, name, transition, expected)
    if name == "promote" and player.call_sign is None:
        player.call_sign = _call_sign(session, player)
    details = {"from": before, "to": transition.target, "call_sign": player.call_sign}
    audit_log.record(session, name, cause, environment=player.environment, player_id=player_id, details=details)
    return player


def _set_holder(session: Session, environment: str, old: int | None, new: int | None, cause: Cause) -> None:
    champions.set_holder(session, environment, new, actor=cause.actor, reason=cause.reason, now=cause.now)
    details = {"from": old, "to": new}
    audit_log.record(session, "champion", cause, environment=environment, player_id=new or old, details=details)


def _call_sign(session: Session, player: Player) -> str:
    named = select(Player.call_sign).where(Player.environment == player.environment, Player.call_sign.is_not(None))
    return free_call_sign(player.environment, str(player.checkpoint), set(session.scalars(named)))


def _standing_conflict(
    player: Player, name: Change, transition: Transition, expected: Standing | None
) -> StandingConflictError:
    if player.kind == "external" and name == "promote":
        rule = "it is an external player, whose policy the league does not store"
        return StandingConflictError(player.id, rule, "train a learner and promote one of its snapshots")
    if player.kind not in ("snapshot", "external"):
        rule = f"it is a {player.kind}, which has no standing"
        return StandingConflictError(player.id, rule, f"{name} one of its snapshots, if it has any")
    allowed = [word for word in allowed_of(player.kind) if player.standing in TRANSITIONS[word].origins]
    wanted = " or ".join(transition.origins)
    rule = f"it is {player.standing}; {name} requires {wanted}"
    if player.standing in transition.origins:
        rule = f"it is {player.standing}, not {expected} as expected"
    return StandingConflictError(player.id, rule, f"from {player.standing} it allows {', '.join(allowed)}")


def _champion_conflict(
    session: Session, environment: str, champion: int | None, wanted: int, expected: int | None
) -> ChampionConflictError:
    rule = f"the champion is {'none' if champion is None else _described(session, champion)}"
    if champion != wanted:
        rule += f", expected {'none' if expected is None else f'player {expected}'}"
    return ChampionConflictError(environment, rule, "check GET /champion and try again")


def _described(session: Session, player_id: int) -> str:
    player, _ = rated_players.require(session, player_id)
    return f"player {player_id} ({display_name(player)})"
