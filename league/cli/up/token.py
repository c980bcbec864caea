"""Worker token of the trainers and the evaluator of `league up`."""

import secrets
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.orm import Session

from league.cli.maintenance import database
from league.errors import UnauthenticatedError
from league.private_files import write_private
from league.services.audit.log import Cause
from league.services.auth import ownership, tokens
from league.services.environments import listing as environment_listing
from league.settings import Settings

_ACTOR = "league up"


def own_credential(settings: Settings, file: Path, environment: str, *learners: str) -> str | None:
    """Return the worker token in `file`, renewed or created if it is not valid; None if authentication is disabled.

    The token becomes the owner of learners without one, for example of those that were trained without
    authentication. Only the file's owner can read it.
    """
    now = datetime.now(UTC)
    with database.current(settings) as connection, connection.write() as session:
        # A token would turn authentication on for everybody, which is the user's decision.
        if not tokens.any_exists(session):
            return None
        secret = file.read_text().strip() if file.exists() else ""
        try:
            tokens.authenticate(session, settings, secret, now)
        except UnauthenticatedError:
            secret = _renew_or_create(session, tokens.name_of(session, secret), now)
            write_private(file, secret)
        name = tokens.authenticate(session, settings, secret, now).name
        environment_listing.create(session, environment, actor=_ACTOR, now=now)
        for learner in learners:
            ownership.adopt(session, name, environment, learner, actor=_ACTOR, now=now)
    return secret


def create_environment(settings: Settings, environment: str) -> None:
    """Create the environment, so that workers with the caller's own token may register learners of it."""
    with database.current(settings) as connection, connection.write() as session:
        if tokens.any_exists(session):
            environment_listing.create(session, environment, actor=_ACTOR, now=datetime.now(UTC))


def _renew_or_create(session: Session, name: str | None, now: datetime) -> str:
    """Renew the token with this name, which owns the run's learners, or create one."""
    if name is not None:
        return tokens.renew(session, name, Cause(_ACTOR, "", now))
    return tokens.create(session, f"up-{secrets.token_hex(4)}", "worker", Cause(_ACTOR, "", now))
