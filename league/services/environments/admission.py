"""Limits of worker tokens: how many learners, snapshots and environments each may create.

In a closed league worker tokens create no environment unless a setting allows it. An admin creates one with `league
environment create`, which the audit log shows; workers then register learners in it. Callers of these functions hold
`Lock.POPULATION`, so that requests which arrive together are counted one after the other.
"""

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from league.auth import Principal
from league.db.models import Event, Learner, Player
from league.errors import ForbiddenError, TokenLimitError
from league.services.auth import ownership
from league.services.environments import lookup as environments
from league.settings import Settings

KIND = "environment"
"""Kind of the events that an environment was created or deleted."""


def require_learner(session: Session, settings: Settings, environment: str, caller: Principal) -> None:
    """Refuse a new learner that a token may not create.

    Raises:
        ForbiddenError: Its environment is new, and the token may not create environments.
        TokenLimitError: The token has as many learners as it may, or has created as many environments.
    """
    if not ownership.is_restricted(caller):
        return
    if not environments.exists(session, environment) and not is_created(session, environment):
        _require_new_environment(session, settings, environment, caller)
    own = select(func.count()).where(Learner.owner == caller.name)
    _require_below(session, own, "learners", settings.token_learners_max, caller.name)


def require_player(session: Session, settings: Settings, owner: str | None) -> None:
    """Refuse one more snapshot or external player of a token that has as many as it may; None is no token.

    Raises:
        TokenLimitError: It has.
    """
    if owner is None:
        return
    learners = select(Learner.id).where(Learner.owner == owner)
    snapshots = select(func.count()).where(Player.learner_id.in_(learners), Player.kind == "snapshot")
    externals = select(func.count()).where(Player.kind == "external", Player.owner == owner)
    own = select(snapshots.scalar_subquery() + externals.scalar_subquery())
    _require_below(session, own, "players", settings.token_players_max, owner)


def is_created(session: Session, environment: str) -> bool:
    """Return whether an admin created an environment and did not delete it since."""
    own = Event.kind == KIND, or_(Event.environment == environment, Event.environment.is_(None))
    of_name = Event.details["environment"].as_string() == environment
    last = select(Event.details).where(*own, of_name).order_by(Event.id.desc()).limit(1)
    details = session.scalar(last)
    return details is not None and details["change"] == "created"


def _require_new_environment(session: Session, settings: Settings, environment: str, caller: Principal) -> None:
    if not settings.workers_create_environments:
        close = environments.nearest(environments.names(session), environment)
        rule = f"environment {environment!r} is new, and worker tokens create none in a closed league"
        meant = f"; or name {' or '.join(close)}, if that is meant" if close else ""
        way_out = (
            f"have an admin run `league environment create {environment}` where the server runs, "
            f"or set LEAGUE_WORKERS_CREATE_ENVIRONMENTS=true there{meant}"
        )
        raise ForbiddenError(f"of token {caller.name!r}", rule, way_out)
    first = select(func.min(Learner.id)).group_by(Learner.environment)
    created = select(func.count()).where(Learner.owner == caller.name, Learner.id.in_(first))
    _require_below(session, created, "environments", settings.token_environments_max, caller.name)


def _require_below(session: Session, count: Select[int], what: str, most: int, token: str) -> None:
    have = session.scalar(count) or 0
    if have >= most:
        rule = f"it has {have:,} of the {most:,} {what} that a token may have"
        way_out = f"use the {what} that there are, or raise LEAGUE_TOKEN_{what.upper()}_MAX"
        raise TokenLimitError(f"token {token!r}", rule, way_out)
