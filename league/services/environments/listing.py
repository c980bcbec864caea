"""Creation and listing of environments for admins."""

from datetime import datetime
from operator import attrgetter

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from league import wire
from league.db import locks
from league.db.locks import Lock
from league.db.models import Environment, Learner, Match, Player
from league.errors import InvalidRequestError
from league.pagination import Page, paginate
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.environments import admission
from league.services.environments import lookup as environments
from league.wire.base import EnvironmentName

_NAME: TypeAdapter[str] = TypeAdapter(EnvironmentName)


def create(session: Session, environment: str, *, actor: str, now: datetime) -> bool:
    """Create an environment; return True if it is new.

    Raises:
        InvalidRequestError: The name is invalid.
    """
    try:
        _NAME.validate_python(environment)
    except ValidationError as error:
        remedy = "use a name that `trainer run --environment` accepts, for example mech-duel"
        raise InvalidRequestError.of_field({**error.errors()[0], "loc": ("environment",)}, remedy) from error
    locks.acquire(session, Lock.POPULATION)
    if environments.is_created(session, environment):
        return False
    session.add(Environment(name=environment, created_at=now))
    record(session, "created", environment, {}, actor=actor, now=now)
    return True


def list_environments(session: Session, limit: int, cursor: str = "") -> Page[wire.Environment]:
    """List environments by name, after the given one."""
    learners, players = (_counts(session, column) for column in (Learner.environment, Player.environment))
    query = paginate(select(Environment), Environment.name, cursor, limit)
    page = Page.cut(session.scalars(query), limit, attrgetter("name"))
    summaries = [
        wire.Environment(
            name=each.name,
            signature=each.signature,
            sides=None if each.sides is None else (each.sides[0], each.sides[1]),
            max_decisions=each.max_decisions,
            learners=learners.get(each.name, 0),
            players=players.get(each.name, 0),
        )
        for each in page.items
    ]
    return Page(summaries, page.next_cursor)


def count_matches(session: Session, environment: str) -> int:
    """Count the matches of an environment."""
    return session.scalar(select(func.count()).where(Match.environment == environment)) or 0


def record(
    session: Session, change: str, environment: str, details: dict[str, int], *, actor: str, now: datetime
) -> None:
    """Record a change of an environment in the audit log.

    The entry has no environment, so that caches of all environments are invalidated.
    """
    all_details = {"change": change, "environment": environment, **details}
    audit_log.record(session, admission.KIND, Cause(actor, "", now), details=all_details)


def _counts(session: Session, column: InstrumentedAttribute[str]) -> dict[str, int]:
    return dict(session.execute(select(column, func.count()).group_by(column)).all())
