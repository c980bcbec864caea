"""Role settings of learners, and resets: the step since which a learner has trained its current weights."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena.matchmaking import roles
from arena.matchmaking.roles import Main, Role, RoleRules
from league import wire
from league.db.models import Learner, Player, SnapshotDecision
from league.errors import InvalidRequestError
from league.settings import Settings

_OF_SNAPSHOTS = ("snapshot_steps", "snapshot_limit", "snapshot_win_rate", "reset", "start")
_REMEDY = "docs/concepts/matchmaking.md has the numbers"


@dataclass(frozen=True)
class Resets:
    """Number of resets of a learner, and the step of the last one; 0 before the first."""

    resets: int
    step: int


NO_RESETS = Resets(0, 0)


@dataclass(frozen=True)
class Followed:
    """Rules of a learner, and the reason if they differ from the requested ones, else empty."""

    rules: RoleRules
    failure: str


def of_learner(settings: Settings, learner: Learner) -> RoleRules:
    """Return the effective rules of a learner; see `followed`."""
    return followed(settings, learner.role, learner.rules or {}).rules


def followed(settings: Settings, role: str, given: Mapping[str, Any]) -> Followed:
    """Return the effective rules of a learner: those of its role in this league, overridden by its own settings.

    If the league's matchmaking settings have changed so that they contradict the learner's, only its snapshot settings
    apply, which do not depend on the league's, and the role's defaults replace the others.
    """
    try:
        return Followed(_rules(settings, role, given), "")
    except ValueError as error:
        # A learner must be able to continue after the league's settings have changed.
        own = {name: value for name, value in given.items() if name in _OF_SNAPSHOTS}
        return Followed(_rules(settings, role, own), str(error))


def of_role(settings: Settings, role: str, given: Mapping[str, Any]) -> RoleRules:
    """Return the rules of a role in this league, overridden by a learner's own settings.

    Raises:
        InvalidRequestError: The role has no such setting, or a value is out of range.
    """
    try:
        return _rules(settings, role, given)
    except ValueError as error:
        raise InvalidRequestError(f"rules of a {role}", str(error), _REMEDY) from error


def _rules(settings: Settings, role: str, given: Mapping[str, Any]) -> RoleRules:
    league = settings.matchmaking
    if role == "main" and not {"self_play_share", "verification_share"} & given.keys():
        left = min(Main.verification_share, 1.0 - league.self_play_share)
        given = {**given, "verification_share": left}  # the shares of a main must not exceed 1
    return roles.role_rules(cast(Role, role), given, league)


def given(rules: wire.RoleNumbers) -> dict[str, Any]:
    """Return the settings that the request gives, as they are stored."""
    return rules.model_dump(exclude_none=True)


def resets(session: Session, learner_ids: Iterable[int]) -> dict[int, Resets]:
    """Return the resets of learners by id, without those that were never reset.

    A reset counts once its snapshot is published.
    """
    resets = select(SnapshotDecision.learner_id, func.count(), func.max(Player.step))
    resets = resets.join(Player, Player.id == SnapshotDecision.player_id)
    resets = resets.where(SnapshotDecision.reset, SnapshotDecision.learner_id.in_(learner_ids))
    found = session.execute(resets.group_by(SnapshotDecision.learner_id))
    return {learner_id: Resets(count, step or 0) for learner_id, count, step in found}


def began_step(session: Session, player_id: int) -> int:
    """Return the step of a learner's last reset, 0 before the first."""
    own = session.scalars(select(Player.learner_id).where(Player.id == player_id))
    found = resets(session, [learner_id for learner_id in own if learner_id is not None])
    return max((each.step for each in found.values()), default=0)
