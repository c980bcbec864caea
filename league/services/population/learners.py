"""Learners: registration with their role settings, lookup and listing."""

from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena.environments.registry import Baseline, baselines, is_known
from arena.matchmaking import roles as arithmetic
from arena.ratings.glicko2 import START_DEVIATION, START_RATING, START_VOLATILITY
from league import wire
from league.auth import Principal
from league.db import locks
from league.db.locks import Lock
from league.db.models import Environment, Learner, LearnerProgress, Player
from league.db.upsert import insert_into
from league.errors import (
    InvalidRequestError,
    LearnerMismatchError,
    NameTakenError,
    UnknownLearnerError,
)
from league.pagination import Page, paginate
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.auth import ownership
from league.services.environments import admission
from league.services.environments import lookup as environments
from league.services.population import role_config
from league.settings import Settings

_IDENTITY = ("id", "name", "role", "environment", "signature", "created_at")
_PROGRESS = ("step", "metrics", "metrics_at", "verdicts")


def register(
    session: Session, settings: Settings, request: wire.LearnerCreate, caller: Principal, now: datetime
) -> wire.Learner:
    """Find or create a learner and store the role settings of the request; changes go to the audit log.

    Raises:
        ForbiddenError: It exists and the caller may not write it, or the caller may not create its environment.
        TokenLimitError: The caller has reached its limit of learners or environments.
        LearnerMismatchError: It exists with another role or signature.
        NameTakenError: A baseline or an external player of the environment has this name.
        InvalidRequestError: The role has no such setting, or a value is out of range.
    """
    if request.rules is not None:
        role_config.of_role(settings, request.role, role_config.given(request.rules))
    found = _get_or_create(session, settings, request, caller, now)
    if request.rules is None:
        return found
    learner, given = require(session, found.id), role_config.given(request.rules)
    before = learner.rules or {}
    if given == before:
        return found
    learner.rules = given
    audit_log.record(
        session,
        "rules",
        Cause(caller.name, "", now),
        environment=learner.environment,
        player_id=found.player_id,
        details={"learner": learner.name, "role": learner.role, "from": before, "to": given},
    )
    return show(session, settings, learner)


def _get_or_create(
    session: Session, settings: Settings, request: wire.LearnerCreate, caller: Principal, now: datetime
) -> wire.Learner:
    """Find the learner of this name in its environment, or create it with the baselines; see `register`."""
    learner = _find(session, request)
    if learner is None:
        _create(session, settings, request, caller, now)
        learner = _find(session, request)
    if learner is None:
        raise UnknownLearnerError(request.name, "it was deleted while it was being created", "send the call again")
    if ownership.is_restricted(caller):
        ownership.require(learner, caller)
    _require_match(learner, request)
    _store_declarations(session, request)
    return show(session, settings, learner)


def list_learners(
    session: Session, settings: Settings, environment: str | None, limit: int, cursor: int = 0
) -> Page[wire.Learner]:
    """List learners in ascending order of ids, after the cursor.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not this one.
    """
    environments.require_known(session, environment)
    query = select(Learner) if environment is None else select(Learner).where(Learner.environment == environment)
    found = session.scalars(paginate(query, Learner.id, cursor, limit)).all()
    return Page.cut(_bodies(session, settings, list(found)), limit, attrgetter("id"))


def show(session: Session, settings: Settings, learner: Learner) -> wire.Learner:
    """Return a learner as a response body.

    Raises:
        UnknownLearnerError: It was deleted with its environment after it was read.
    """
    bodies = _bodies(session, settings, [learner])
    if not bodies:
        raise unknown(learner.id)
    return bodies[0]


def require(session: Session, learner_id: int) -> Learner:
    """Return the learner with an id.

    Raises:
        UnknownLearnerError: There is no such learner.
    """
    learner = session.get(Learner, learner_id)
    if learner is None:
        raise unknown(learner_id)
    return learner


def unknown(learner_id: int) -> UnknownLearnerError:
    """Return the error for an unknown learner id."""
    return UnknownLearnerError(learner_id, "no learner has this id", "register it with POST /learners")


def _find(session: Session, request: wire.LearnerCreate) -> Learner | None:
    named = select(Learner).where(Learner.environment == request.environment, Learner.name == request.name)
    return session.scalar(named)


def _create(
    session: Session, settings: Settings, request: wire.LearnerCreate, caller: Principal, now: datetime
) -> None:
    # New players follow, whose ids must commit in order. The lock also makes the checks below atomic.
    locks.acquire(session, Lock.POPULATION)
    if _find(session, request) is not None:  # created by a concurrent call while waiting for the lock
        return
    admission.require_learner(session, settings, request.environment, caller)
    if _has_player(session, request, "external"):
        rule = f"an external player of {request.environment} has this name"
        raise NameTakenError(request.name, rule, "choose another name for the learner")
    environment = session.get(Environment, request.environment)
    if environment is None:
        environment = Environment(name=request.environment, owner=ownership.owner(caller), created_at=now)
        session.add(environment)
    environment.signature = request.signature
    session.flush()
    # Baselines are inserted past the unit of work, so the environment that they refer to is flushed before.
    _add_baselines(session, settings, request, now)
    row = {
        **request.model_dump(include={"name", "role", "environment", "signature"}),
        "owner": ownership.owner(caller),
        "created_at": now,
    }
    statement = insert_into(session, Learner).values(row).on_conflict_do_nothing().returning(Learner.id)
    learner_id = session.scalar(statement)
    if learner_id is not None:
        session.add(LearnerProgress(learner_id=learner_id))
        session.add(Player(**_start(request, "learner", request.name, now), learner_id=learner_id, role=request.role))
        session.flush()


def _store_declarations(session: Session, request: wire.LearnerCreate) -> None:
    """Store the learner's declarations about its environment: the longest match and the latest names of sides."""
    environment = session.get_one(Environment, request.environment)
    # The longest declaration counts, because trainers of one environment may run it with different limits.
    if request.max_decisions is not None and request.max_decisions > (environment.max_decisions or 0):
        environment.max_decisions = request.max_decisions
    if request.sides is not None and request.sides != tuple(environment.sides or ()):
        environment.sides = list(request.sides)


def _has_player(session: Session, request: wire.LearnerCreate, kind: wire.Kind) -> bool:
    """Return whether a player of a kind has the learner's name."""
    same = request.model_dump(include={"environment", "signature", "name"})
    return session.scalar(select(Player.id).filter_by(**same, kind=kind)) is not None


def _add_baselines(session: Session, settings: Settings, request: wire.LearnerCreate, now: datetime) -> None:
    known = (*baselines(request.environment), *_registered_baselines(request))
    if any(baseline.name == request.name for baseline in known) or _has_player(session, request, "baseline"):
        rule = f"a baseline of {request.environment} has this name"
        raise NameTakenError(request.name, rule, "choose another name for the learner")
    rows = [
        _start(request, "baseline", baseline.name, now)
        | {
            "checkpoint": f"baseline:{baseline.name}",
            "start_rating": baseline.rating,
            "start_deviation": settings.baseline_deviation,
        }
        for baseline in known
    ]
    # An earlier learner of this environment may have added them.
    session.execute(insert_into(session, Player).values(rows).on_conflict_do_nothing())


def _registered_baselines(request: wire.LearnerCreate) -> list[Baseline]:
    """Return the scripted players that a registration adds for a game unknown to the league.

    Raises:
        InvalidRequestError: The league knows the game itself, or two scripted players have the same name.
    """
    if not request.baselines:
        return []
    if is_known(request.environment):
        rule = "the league already has the game's baselines and accepts no others"
        raise InvalidRequestError(f"baselines of {request.environment}", rule, "leave them out")
    names = [*(each.name for each in baselines(request.environment)), *(each.name for each in request.baselines)]
    if len(set(names)) < len(names):
        rule = "scripted players of a game must have different names"
        raise InvalidRequestError(f"baselines called {', '.join(names)}", rule, "rename them")
    return [Baseline(each.name, each.rating) for each in request.baselines]


def _start(request: wire.LearnerCreate, kind: wire.Kind, name: str, now: datetime) -> dict[str, Any]:
    return {
        "kind": kind,
        "environment": request.environment,
        "signature": request.signature,
        "name": name,
        "card": {},
        "start_rating": START_RATING,
        "start_deviation": START_DEVIATION,
        "start_volatility": START_VOLATILITY,
        "created_at": now,
    }


def _require_match(learner: Learner, request: wire.LearnerCreate) -> None:
    for field, stored, requested in (
        ("role", learner.role, request.role),
        ("signature", learner.signature, request.signature),
    ):
        if stored != requested:
            raise LearnerMismatchError(
                f"{field}={requested}",
                f"learner {learner.name!r} of {learner.environment} has {field}={stored}",
                "register under another name",
            )


def _bodies(session: Session, settings: Settings, learners: list[Learner]) -> list[wire.Learner]:
    ids = [learner.id for learner in learners]
    resets_by_learner = role_config.resets(session, ids)
    resets = [resets_by_learner.get(learner_id, role_config.NO_RESETS) for learner_id in ids]
    own = select(Player.learner_id, Player.id).where(Player.learner_id.in_(ids), Player.kind == "learner")
    played = Environment.name.in_({learner.environment for learner in learners})
    sides = dict(session.execute(select(Environment.name, Environment.sides).where(played)).all())
    last = select(Player.learner_id, func.max(Player.id)).where(Player.learner_id.in_(ids), Player.kind == "snapshot")
    players = dict(session.execute(own).all())
    progress_rows = session.scalars(select(LearnerProgress).where(LearnerProgress.learner_id.in_(ids)))
    progress = {one.learner_id: one for one in progress_rows}
    snapshots = dict(session.execute(last.group_by(Player.learner_id)).all())
    return [
        wire.Learner.model_validate(
            {
                **{name: getattr(learner, name) for name in _IDENTITY},
                **{name: getattr(progress[learner.id], name) for name in _PROGRESS},
                "player_id": players[learner.id],
                "sides": sides[learner.environment],
                "latest_snapshot": snapshots.get(learner.id),
                "rules": arithmetic.numbers(role_config.of_learner(settings, learner)),
                "resets": reset.resets,
                "began_step": reset.step,
            }
        )
        for learner, reset in zip(learners, resets, strict=True)
        if learner.id in players
        and learner.id in progress  # READ COMMITTED: a concurrent deletion shows between statements
    ]
