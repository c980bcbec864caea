"""Queries of rating periods: listed, the newest one, and environments by their last one."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Period
from league.services.environments import lookup as environments
from league.services.ratings.period import RatingConfig


def listing(
    session: Session, environment: str | None, limit: int, before: int | None, version: int | None = None
) -> list[wire.RatingPeriod]:
    """List periods of a version, None for the present one of each environment, newest first, before the given one.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not this one.
    """
    environments.require_known(session, environment)
    query = select(Period).where(Period.current_version() if version is None else Period.version == version)
    query = query if environment is None else query.where(Period.environment == environment)
    query = query if before is None else query.where(Period.id < before)
    return [to_wire(period) for period in session.scalars(query.order_by(Period.id.desc()).limit(limit))]


def newest(session: Session, environment: str) -> Period | None:
    """Return the last closed period."""
    return session.scalar(select(Period).where(Period.environment == environment).order_by(Period.id.desc()).limit(1))


def by_last_closed(session: Session) -> list[str]:
    """Name every environment, the one whose last period is the newest first and those without any last."""
    closed = {each: newest(session, each) for each in environments.names(session)}
    return sorted(closed, key=lambda each: 0 if (last := closed[each]) is None else -last.id)


def to_wire(period: Period) -> wire.RatingPeriod:
    """Return a period as the wire has it."""
    return wire.RatingPeriod(
        id=period.id,
        version=period.version,
        number=period.number,
        environment=period.environment,
        matches=period.matches,
        players=period.players,
        config_id=RatingConfig.restored(period.rule).id,
        config=period.rule,
        refitted=period.refitted,
        closed_at=period.closed_at,
        reason=period.reason,
    )
