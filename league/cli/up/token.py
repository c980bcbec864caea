"""The token that `league up` gives to its own trainers and evaluator."""

import secrets
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.orm import Session

from league.cli.maintenance import database
from league.errors import UnauthenticatedError
from league.private_files import write_private
from league.services.auth import ownership, tokens
from league.services.environments import listing as environment_listing
from league.settings import Settings

_ACTOR = "league up"


def own_credential(settings: Settings, file: Path, environment: str, *learners: str) -> str | None:
    """Return none while the league is open; else the worker token kept in `file`, made there if it is not usable.

    Learners become the token's where they are nobody's, as those that were trained while the league was open. The file
    is readable by its owner alone.
    """
    now = datetime.now(UTC)
    with database.current(settings) as connection, connection.write() as session:
        if not tokens.any_exists(session):
            return None
        kept = file.read_text().strip() if file.exists() else ""
        try:
            tokens.authenticate(session, settings, kept, now)
        except UnauthenticatedError:
            kept = _usable(session, tokens.name_of(session, kept), now)
            write_private(file, kept)
        name = tokens.authenticate(session, settings, kept, now).name
        environment_listing.create(session, environment, actor=_ACTOR, now=now)
        for learner in learners:
            ownership.adopt(session, name, environment, learner, actor=_ACTOR, now=now)
    return kept


def create_environment(settings: Settings, environment: str) -> None:
    """Let workers with a token of the caller register learners of the environment that the run is for."""
    with database.current(settings) as connection, connection.write() as session:
        if tokens.any_exists(session):
            environment_listing.create(session, environment, actor=_ACTOR, now=datetime.now(UTC))


def _usable(session: Session, name: str | None, now: datetime) -> str:
    """Renew the token that was kept, to which the run's learner belongs, or make one."""
    if name is not None:
        return tokens.renew(session, name, now, actor=_ACTOR)
    return tokens.create(session, f"up-{secrets.token_hex(4)}", "worker", now, actor=_ACTOR)
