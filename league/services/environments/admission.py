"""Limits of worker tokens: how many learners, snapshots and environments each may create.

With authentication, worker tokens cannot create environments unless a setting allows it. An admin creates one with
`league environment create`; workers then register learners in it. Callers hold `Lock.POPULATION`, so that concurrent
requests are counted one after another.
"""

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from league.auth import Principal
from league.db.models import Environment, Learner, Player
from league.errors import ForbiddenError, TokenLimitError
from league.services.auth import ownership
from league.services.environments import lookup as environments
from league.settings import Settings

KIND = "environment"
"""Kind of events about created and deleted environments."""


def require_learner(session: Session, settings: Settings, environment: str, caller: Principal) -> None:
    """Reject a new learner that a token may not create.

    Raises:
        ForbiddenError: Its environment is new, and the token may not create environments.
        TokenLimitError: The token has reached its limit of learners or environments.
    """
    if not ownership.is_restricted(caller):
        return
    if not environments.is_created(session, environment):
        _require_new_environment(session, settings, environment, caller)
    own = select(func.count()).where(Learner.owner == caller.name)
    _require_below(session, own, "learners", settings.token_learners_max, caller.name)


def require_player(session: Session, settings: Settings, owner: str | None) -> None:
    """Reject a new snapshot or external player above a token's limit; None is no token.

    Raises:
        TokenLimitError: The token has reached its limit.
    """
    if owner is None:
        return
    learners = select(Learner.id).where(Learner.owner == owner)
    snapshots = select(func.count()).where(Player.learner_id.in_(learners), Player.kind == "snapshot")
    externals = select(func.count()).where(Player.kind == "external", Player.owner == owner)
    own = select(snapshots.scalar_subquery() + externals.scalar_subquery())
    _require_below(session, own, "players", settings.token_players_max, owner)


def _require_new_environment(session: Session, settings: Settings, environment: str, caller: Principal) -> None:
    if not settings.workers_create_environments:
        close = environments.nearest(environments.names(session), environment)
        rule = f"environment {environment!r} is new, and worker tokens may not create environments"
        meant = f"; did you mean {' or '.join(close)}?" if close else ""
        remedy = (
            f"ask an operator to run `league environment create {environment}` where the server runs, "
            f"or set LEAGUE_WORKERS_CREATE_ENVIRONMENTS=true there{meant}"
        )
        raise ForbiddenError(f"of token {caller.name!r}", rule, remedy)
    created = select(func.count()).where(Environment.owner == caller.name)
    _require_below(session, created, "environments", settings.token_environments_max, caller.name)


def _require_below(session: Session, count: Select[int], what: str, most: int, token: str) -> None:
    have = session.scalar(count) or 0
    if have >= most:
        rule = f"it has {have:,} of at most {most:,} {what}"
        remedy = f"use existing {what}, or raise LEAGUE_TOKEN_{what.upper()}_MAX"
        raise TokenLimitError(f"token {token!r}", rule, remedy)
