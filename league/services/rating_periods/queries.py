"""Queries of rating periods: list, lookup by id, the newest one, and environments by their newest one."""

from operator import attrgetter

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Period
from league.errors import UnknownPeriodError
from league.pagination import Page, paginate
from league.services.environments import lookup as environments
from league.services.ratings.period import RatingConfig


def list_periods(
    session: Session, environment: str | None, limit: int, cursor: int | None = None, version: int | None = None
) -> Page[wire.RatingPeriod]:
    """List periods of a version, None for the current one of each environment, newest first, before the cursor.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not this one.
    """
    environments.require_known(session, environment)
    query = select(Period).where(Period.current_version() if version is None else Period.version == version)
    query = query if environment is None else query.where(Period.environment == environment)
    query = paginate(query, Period.id, cursor, limit, newest_first=True)
    return Page.cut(map(to_wire, session.scalars(query)), limit, attrgetter("id"))


def get_period(session: Session, period_id: int) -> wire.RatingPeriod:
    """Return the period with an id.

    Raises:
        UnknownPeriodError: There is no such period.
    """
    period = session.get(Period, period_id)
    if period is None:
        raise UnknownPeriodError(period_id, "no rating period has this id", "list them with GET /rating-periods")
    return to_wire(period)


def count_matches(session: Session, environment: str) -> int:
    """Return the number of matches in all closed periods."""
    own = Period.environment == environment, Period.current_version()
    return session.scalar(select(func.coalesce(func.sum(Period.matches), 0)).where(*own)) or 0


def newest(session: Session, environment: str) -> Period | None:
    """Return the last closed period."""
    return session.scalar(select(Period).where(Period.environment == environment).order_by(Period.id.desc()).limit(1))


def by_last_closed(session: Session) -> list[str]:
    """Return all environments, ordered by their newest period, newest first; those without one come last."""
    closed = {each: newest(session, each) for each in environments.names(session)}
    return sorted(closed, key=lambda each: 0 if (last := closed[each]) is None else -last.id)


def to_wire(period: Period) -> wire.RatingPeriod:
    """Return a period as a response body."""
    return wire.RatingPeriod.of(period, config_id=RatingConfig.restored(period.rule).id, config=period.rule)
