"""Registration of learners, with the numbers of their role."""

from datetime import datetime

from sqlalchemy.orm import Session

from league import wire
from league.auth import Principal
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.population import learners, role_config
from league.settings import Settings

KIND = "rules"


def register(
    session: Session, settings: Settings, request: wire.LearnerCreate, caller: Principal, now: datetime
) -> wire.Learner:
    """Find or found a lineage, and have it follow the numbers that are given; a change is written into the log.

    Raises:
        ForbiddenError: It exists and the caller may not write for it.
        LearnerMismatchError: It exists with another role or signature.
        NameTakenError: A baseline of the environment has this name.
        InvalidRequestError: The role has no such number, or one is out of its range.
    """
    if request.rules is not None:
        role_config.of_role(settings, request.role, role_config.given(request.rules))
    found = learners.get_or_create(session, settings, request, caller, now)
    if request.rules is None:
        return found
    learner, given = learners.require(session, found.id), role_config.given(request.rules)
    before = learner.rules or {}
    if given == before:
        return found
    learner.rules = given
    audit_log.record(
        session,
        KIND,
        Cause(caller.name, "", now),
        environment=learner.environment,
        player_id=found.player_id,
        details={"learner": learner.name, "role": learner.role, "from": before, "to": given},
    )
    return learners.show(session, settings, learner)
