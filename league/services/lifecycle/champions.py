"""Champion alias of each environment: its holder and history."""

from datetime import datetime
from operator import attrgetter

from sqlalchemy import select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Champion, Event, Player
from league.errors import UnknownChampionError
from league.pagination import Page, paginate
from league.services.environments import lookup as environments
from league.services.ratings import rated_players
from league.settings import Settings


def show(session: Session, settings: Settings, environment: str) -> wire.Champion:
    """Return the champion.

    Raises:
        UnknownEnvironmentError: The environment does not exist.
        UnknownChampionError: The environment has no champion.
    """
    environments.require_known(session, environment)
    last = _last(session, environment)
    if last is None or last.player_id is None:
        rule = "no commander is champion"
        if last is not None:
            rule = f"there has been no champion since {last.since:%Y-%m-%dT%H:%M:%SZ}"
        raise UnknownChampionError(environment, rule, "choose one with `league promote PLAYER --champion`")
    return wire.Champion.of(last, player=rated_players.show(session, settings, last.player_id))


def list_champions(
    session: Session, environment: str, limit: int, cursor: int | None = None
) -> Page[wire.ChampionChange]:
    """List the changes of the champion newest first, before the cursor.

    Raises:
        UnknownEnvironmentError: The environment does not exist.
    """
    environments.require_known(session, environment)
    query = select(Champion, Player.name, Player.call_sign).outerjoin(Player, Player.id == Champion.player_id)
    query = paginate(
        query.where(Champion.environment == environment), Champion.number, cursor, limit, newest_first=True
    )
    changes = [
        wire.ChampionChange.of(
            change,
            player=None if change.player_id is None else wire.PlayerName(player_id=change.player_id, name=sign or name),
        )
        for change, name, sign in session.execute(query)
    ]
    return Page.cut(changes, limit, attrgetter("number"))


def champion_id(session: Session, environment: str) -> int | None:
    """Return the champion's player id, or None."""
    last = _last(session, environment)
    return None if last is None else last.player_id


def champion_in_audit_log(session: Session, environment: str) -> int | None:
    """Return the champion's player id according to the audit log, or None."""
    changes = select(Event.details).where(Event.kind == "champion", Event.environment == environment)
    details = session.scalar(changes.order_by(Event.id.desc()).limit(1))
    return None if details is None else details.get("to")


def set_holder(
    session: Session, environment: str, player_id: int | None, *, actor: str, reason: str, now: datetime
) -> None:
    """Set or clear the champion; of two concurrent changes, one violates the unique number."""
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
