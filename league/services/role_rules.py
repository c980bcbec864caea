"""The numbers of learners' roles, and since when each learner has had the weights that it trains."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena import roles
from arena.roles import Role, RoleRules
from league import wire
from league.config import Settings
from league.db.models import Learner, Player, SnapshotDecision
from league.errors import InvalidRequestError


@dataclass(frozen=True)
class Beginnings:
    """How often a learner has begun anew, and at which of its steps the last time; 0 before the first."""

    resets: int
    step: int


NEVER_ANEW = Beginnings(0, 0)


def of_learner(settings: Settings, learner: Learner) -> RoleRules:
    """Return the rules that a learner follows: those of its role in this league, with its own numbers in their place.

    Raises:
        InvalidRequestError: The league's matchmaking has changed so that they contradict it.
    """
    return of_role(settings, learner.role, learner.rules or {})


def of_role(settings: Settings, role: str, given: Mapping[str, Any]) -> RoleRules:
    """Return the rules of a role in this league, with numbers of a learner's own in their place.

    Raises:
        InvalidRequestError: The role has no such number, or one is out of its range.
    """
    try:
        return roles.role_rules(cast(Role, role), given, settings.matchmaking)
    except ValueError as error:
        raise InvalidRequestError(f"rules of a {role}", str(error), "docs/league_play.md has the numbers") from error


def given(rules: wire.RoleNumbers) -> dict[str, Any]:
    """Return what was given of a learner's numbers, as it is stored."""
    return rules.model_dump(exclude_none=True)


def beginnings(session: Session, learner_ids: Iterable[int]) -> dict[int, Beginnings]:
    """Return when learners began anew, by id; those that never did are left out.

    A learner begins anew with a snapshot, so that it is known from its publication on.
    """
    resets = select(SnapshotDecision.learner_id, func.count(), func.max(Player.step))
    resets = resets.join(Player, Player.id == SnapshotDecision.player_id)
    resets = resets.where(SnapshotDecision.reset, SnapshotDecision.learner_id.in_(learner_ids))
    found = session.execute(resets.group_by(SnapshotDecision.learner_id))
    return {learner_id: Beginnings(count, step or 0) for learner_id, count, step in found}
