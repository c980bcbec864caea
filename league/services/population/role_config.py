"""Configuration of learners' roles, and resets: since which step a learner has trained its weights."""

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
_WAY_OUT = "docs/concepts/matchmaking.md has the numbers"


@dataclass(frozen=True)
class Resets:
    """How often a learner has begun anew, and at which of its steps the last time; 0 before the first."""

    resets: int
    step: int


NO_RESETS = Resets(0, 0)


@dataclass(frozen=True)
class Followed:
    """The rules that a learner follows, and why they are not those that it asked for; empty where they are."""

    rules: RoleRules
    failure: str


def of_learner(settings: Settings, learner: Learner) -> RoleRules:
    """Return the rules that a learner follows; see `followed`."""
    return followed(settings, learner.role, learner.rules or {}).rules


def followed(settings: Settings, role: str, given: Mapping[str, Any]) -> Followed:
    """Return the rules that a learner follows: those of its role in this league, with its own numbers in their place.

    The league's matchmaking may have changed so that they contradict it. Then those of its role stand in for all of the
    learner's but the ones of its snapshots, which the league has no say in.
    """
    try:
        return Followed(_rules(settings, role, given), "")
    except ValueError as error:
        own = {name: value for name, value in given.items() if name in _OF_SNAPSHOTS}
        return Followed(_rules(settings, role, own), str(error))


def of_role(settings: Settings, role: str, given: Mapping[str, Any]) -> RoleRules:
    """Return the rules of a role in this league, with numbers of a learner's own in their place.

    Raises:
        InvalidRequestError: The role has no such number, or one is out of its range.
    """
    try:
        return _rules(settings, role, given)
    except ValueError as error:
        raise InvalidRequestError(f"rules of a {role}", str(error), _WAY_OUT) from error


def _rules(settings: Settings, role: str, given: Mapping[str, Any]) -> RoleRules:
    league = settings.matchmaking
    if role == "main" and not {"self_play_share", "verification_share"} & given.keys():
        left = min(Main.verification_share, 1.0 - league.self_play_share)
        given = {**given, "verification_share": left}  # a league may leave less to the default
    return roles.role_rules(cast(Role, role), given, league)


def given(rules: wire.RoleNumbers) -> dict[str, Any]:
    """Return what was given of a learner's numbers, as it is stored."""
    return rules.model_dump(exclude_none=True)


def resets(session: Session, learner_ids: Iterable[int]) -> dict[int, Resets]:
    """Return the resets of learners by id, without those that were never reset.

    A reset counts from the publication of its snapshot on.
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
