"""Champions: the alias `champion` of each environment, its holder and its history."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Champion, Event, Player
from league.errors import UnknownChampionError
from league.services.environments import lookup as environments
from league.services.ratings import rated_players
from league.settings import Settings


def show(session: Session, settings: Settings, environment: str) -> wire.Champion:
    """Show the champion.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not this one.
        UnknownChampionError: There is none.
    """
    environments.require_known(session, environment)
    last = _last(session, environment)
    if last is None or last.player_id is None:
        rule = "no commander holds the alias"
        if last is not None:
            rule = f"nobody has held the alias since {last.since:%Y-%m-%dT%H:%M:%SZ}"
        raise UnknownChampionError(environment, rule, "choose one with `league promote PLAYER --champion`")
    return wire.Champion(
        environment=environment,
        number=last.number,
        player=rated_players.show(session, settings, last.player_id),
        actor=last.actor,
        reason=last.reason,
        since=last.since,
    )


def history(session: Session, environment: str, limit: int, before: int | None) -> list[wire.ChampionChange]:
    """List who became champion when, newest first, before the given number.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not this one.
    """
    environments.require_known(session, environment)
    query = select(Champion, Player.name, Player.call_sign).outerjoin(Player, Player.id == Champion.player_id)
    query = query.where(Champion.environment == environment)
    query = query if before is None else query.where(Champion.number < before)
    return [
        wire.ChampionChange(
            environment=environment,
            number=change.number,
            player=None if change.player_id is None else wire.PlayerName(player_id=change.player_id, name=sign or name),
            actor=change.actor,
            reason=change.reason,
            since=change.since,
        )
        for change, name, sign in session.execute(query.order_by(Champion.number.desc()).limit(limit))
    ]


def champion_id(session: Session, environment: str) -> int | None:
    """Return the champion's player id; None where there is none."""
    last = _last(session, environment)
    return None if last is None else last.player_id


def champion_in_audit_log(session: Session, environment: str) -> int | None:
    """Return the player id that the alias went to last, as the audit log has it; None where there is none."""
    changes = select(Event.details).where(Event.kind == "champion", Event.environment == environment)
    details = session.scalar(changes.order_by(Event.id.desc()).limit(1))
    return None if details is None else details.get("to")


def hand_over(
    session: Session, environment: str, player_id: int | None, *, actor: str, reason: str, now: datetime
) -> None:
    """Give the alias to a player, or to nobody. Of two calls that race past every check one fails on its number."""
    last = _last(session, environment)
    session.add(
        Champion(
            environment=environment,
            number=1 if last is None else last.number + 1,
            player_id=player_id,
            actor=actor,
            reason=reason,
            since=now,
        )
    )
    session.flush()


def _last(session: Session, environment: str) -> Champion | None:
    query = select(Champion).where(Champion.environment == environment)
    return session.scalar(query.order_by(Champion.number.desc()).limit(1))
