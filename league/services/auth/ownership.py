"""Ownership: a worker or a learner belongs to the worker token that registered it.

An external player belongs to the token that entered it.

Workers and learners that were registered without authentication, or by an admin, have no owner, and only admins write
for them. A worker gets its token as owner when it registers again with its secret instance id. A learner has no such
proof, so an admin assigns it. An admin may write for all.
"""

from datetime import datetime
from shlex import join

from sqlalchemy import select
from sqlalchemy.orm import Session

from league.auth import Principal, Scope
from league.db.models import Learner, Player, Worker
from league.errors import ForbiddenError, InvalidRequestError, UnknownLearnerError
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.auth import tokens

Row = Worker | Learner | Player


def is_restricted(caller: Principal) -> bool:
    """Return True if a caller may write only for its own workers and learners."""
    return caller.scope < Scope.ADMIN


def owner(caller: Principal) -> str | None:
    """Return the owner of workers and learners that a caller registers: its token, or None."""
    return caller.name if is_restricted(caller) else None


def may_write(caller: Principal, owner_name: str | None) -> bool:
    """Return True if a caller may write for an owner, which is a token or None."""
    return not is_restricted(caller) or owner_name == caller.name


def require_worker(session: Session, caller: Principal, worker_id: str) -> None:
    """Reject a worker that the caller does not own; a missing worker passes.

    Raises:
        ForbiddenError: It belongs to another token or has no owner.
    """
    if is_restricted(caller):
        require(session.get(Worker, worker_id), caller)


def require_learner(session: Session, caller: Principal, learner_id: int) -> None:
    """Reject a learner that the caller does not own.

    Raises:
        ForbiddenError: It belongs to another token or has no owner.
    """
    if is_restricted(caller):
        require(session.get(Learner, learner_id), caller)


def require_learner_of(session: Session, caller: Principal, player_id: int) -> None:
    """Reject a player if the caller does not own its learner.

    Raises:
        ForbiddenError: It belongs to another token or has no owner.
    """
    if is_restricted(caller):
        require(session.scalar(select(Learner).join(Player).where(Player.id == player_id)), caller)


def require_external(session: Session, caller: Principal, player_id: int) -> None:
    """Reject an external player that the caller does not own.

    Raises:
        ForbiddenError: It belongs to another token or has no owner.
    """
    if is_restricted(caller):
        require(session.scalar(select(Player).where(Player.id == player_id, Player.kind == "external")), caller)


def require_player(session: Session, caller: Principal, player_id: int) -> None:
    """Reject a player if the caller owns neither it nor its learner; a missing player passes.

    Raises:
        ForbiddenError: It belongs to another token or has no owner.
    """
    if not is_restricted(caller):
        return
    player = session.get(Player, player_id)
    if player is not None and player.learner_id is not None:
        require(session.get(Learner, player.learner_id), caller)
    else:
        require(player, caller)


def require(row: Row | None, caller: Principal) -> None:
    """Reject a worker, learner or external player that the caller does not own; None passes.

    Raises:
        ForbiddenError: It belongs to another token or has no owner.
    """
    if row is None or row.owner == caller.name:
        return
    owner = "has no owner" if row.owner is None else f"belongs to token {row.owner!r}"
    rule = f"{_kind(row)} {row.name!r} {owner}"
    raise ForbiddenError(f"of token {caller.name!r}", rule, _remedy(row, caller))


def _kind(row: Row) -> str:
    return {Worker: "worker", Learner: "learner", Player: "external player"}[type(row)]


def _remedy(row: Row, caller: Principal) -> str:
    if row.owner is not None:
        renewal = "`league token renew` gives a lost token a new secret"
        return f"use that token, or another name for the {_kind(row)}; {renewal}"
    if isinstance(row, Player):
        return "enter it under another name, or with an admin token"
    if isinstance(row, Worker):
        return "register it again with the same instance"
    given = join(["league", "token", "assign", caller.name, row.name, "--environment", row.environment])
    return f"ask an operator of the league to run `{given}`, or use another name"


def assign(session: Session, token: str, environment: str, learner: str, *, actor: str, now: datetime) -> None:
    """Make a worker token the owner of a learner, replacing any previous owner.

    Raises:
        UnknownTokenError: There is no token of this name.
        InvalidRequestError: It is not a worker token, and only those own learners.
        UnknownLearnerError: The environment has no learner of this name.
    """
    scope = tokens.require(session, token).scope
    if scope != Scope.WORKER.word:
        rule = f"its scope is {scope}; learners belong to worker tokens"
        raise InvalidRequestError(f"token {token!r}", rule, "use a token that was created with --scope worker")
    named = Learner.environment == environment, Learner.name == learner
    # FOR NO KEY UPDATE does not block inserts that refer to the row, such as snapshots of this learner.
    locked = select(Learner).where(*named).with_for_update(key_share=True)
    row = session.scalar(locked)
    if row is None:
        raise UnknownLearnerError(learner, f"{environment} has no learner of this name", "see `league players`")
    before, row.owner = row.owner, token
    audit_log.record(
        session,
        "token",
        Cause(actor, "", now),
        environment=environment,
        player_id=session.scalar(select(Player.id).where(Player.learner_id == row.id, Player.kind == "learner")),
        details={"change": "assigned", "token": token, "learner": learner, "before": before},
    )


def unowned(session: Session) -> list[tuple[str, str]]:
    """Return the environment and name of each learner without an owner, in alphabetical order."""
    query = select(Learner.environment, Learner.name).where(Learner.owner.is_(None))
    return [(environment, name) for environment, name in session.execute(query.order_by(*query.selected_columns))]


def adopt(session: Session, token: str, environment: str, learner: str, *, actor: str, now: datetime) -> None:
    """Make a worker token the owner of a learner that exists and has no owner."""
    named = Learner.environment == environment, Learner.name == learner, Learner.owner.is_(None)
    if session.scalar(select(Learner.id).where(*named)) is not None:
        assign(session, token, environment, learner, actor=actor, now=now)
