"""Creation and listing of environments, as an admin sees them."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from league.db import locks
from league.db.locks import Lock
from league.db.models import Event, Learner, Match, Player
from league.errors import InvalidRequestError
from league.services.audit import log as audit_log
from league.services.environments import admission
from league.services.environments import lookup as environments
from league.wire.base import EnvironmentName

_NAME: TypeAdapter[str] = TypeAdapter(EnvironmentName)


@dataclass(frozen=True)
class EnvironmentListing:
    """An environment and how much it holds; one that was created and has no learner yet holds nothing."""

    name: str
    learners: int
    players: int
    matches: int


def create(session: Session, environment: str, *, actor: str, now: datetime) -> bool:
    """Let worker tokens register learners of an environment; return whether it is new.

    Raises:
        InvalidRequestError: An environment cannot have this name.
    """
    try:
        _NAME.validate_python(environment)
    except ValidationError as error:
        way_out = "name a game as `trainer run --environment` takes it, such as mech-duel"
        raise InvalidRequestError.of_field({**error.errors()[0], "loc": ("environment",)}, way_out) from error
    locks.acquire(session, Lock.POPULATION)
    if environments.exists(session, environment) or admission.is_created(session, environment):
        return False
    record(session, "created", environment, {}, actor=actor, now=now)
    return True


def listing(session: Session) -> list[EnvironmentListing]:
    """List all environments by name, with the number of their learners, players and matches."""
    learners, players = (_counts(session, column) for column in (Learner.environment, Player.environment))
    names = sorted({*learners, *_created(session)})
    return [
        EnvironmentListing(name, learners.get(name, 0), players.get(name, 0), count_matches(session, name))
        for name in names
    ]


def count_matches(session: Session, environment: str) -> int:
    """Count the matches of an environment."""
    return session.scalar(select(func.count()).where(Match.environment == environment)) or 0


def record(
    session: Session, change: str, environment: str, details: dict[str, int], *, actor: str, now: datetime
) -> None:
    """Write into the audit log what became of an environment.

    The line is of no environment: what processes remember of any of them is read again.
    """
    told = {"change": change, "environment": environment, **details}
    audit_log.record(
        session, admission.KIND, environment=None, player_id=None, actor=actor, reason="", details=told, now=now
    )


def _counts(session: Session, column: InstrumentedAttribute[str]) -> dict[str, int]:
    return dict(session.execute(select(column, func.count()).group_by(column)).all())


def _created(session: Session) -> list[str]:
    """Name the environments that an admin created and did not delete since."""
    changes = session.scalars(select(Event.details).where(Event.kind == admission.KIND).order_by(Event.id))
    last = {details["environment"]: details["change"] for details in changes}
    return [name for name, change in last.items() if change == "created"]
