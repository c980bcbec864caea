"""Who may write for whom: a worker or a learner belongs to the worker token that registered it.

What was registered while the league was open, or by an admin, is nobody's until the first worker token registers it
again. An admin may write for everybody.
"""

from typing import TypeVar

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from league.auth import Principal, Scope
from league.db.models import Learner, Player, Worker
from league.errors import ForbiddenError

Owned = TypeVar("Owned", Worker, Learner)


def bound(caller: Principal) -> bool:
    """Say whether a caller may write only for what is its own."""
    return caller.scope < Scope.ADMIN


def claim_worker(session: Session, caller: Principal, worker_id: str) -> None:
    """Make a worker the caller's if it is nobody's yet.

    Raises:
        ForbiddenError: It is another token's.
    """
    _claim(session, caller, Worker, worker_id)


def claim_learner(session: Session, caller: Principal, learner_id: int) -> None:
    """Make a learner the caller's if it is nobody's yet.

    Raises:
        ForbiddenError: It is another token's.
    """
    _claim(session, caller, Learner, learner_id)


def require_worker(session: Session, caller: Principal, worker_id: str) -> None:
    """Refuse to act as a worker of another token; one that does not exist is for the service to name.

    Raises:
        ForbiddenError: It is another token's.
    """
    if bound(caller):
        _require(session.get(Worker, worker_id), caller)


def require_learner(session: Session, caller: Principal, learner_id: int) -> None:
    """Refuse to write for a learner of another token.

    Raises:
        ForbiddenError: It is another token's.
    """
    if bound(caller):
        _require(session.get(Learner, learner_id), caller)


def require_learner_of(session: Session, caller: Principal, player_id: int) -> None:
    """Refuse to play for the learner behind a player where it is another token's.

    Raises:
        ForbiddenError: It is.
    """
    if bound(caller):
        _require(session.scalar(select(Learner).join(Player).where(Player.id == player_id)), caller)


def _claim(session: Session, caller: Principal, kind: type[Owned], key: str | int) -> None:
    if bound(caller):
        unclaimed = update(kind).where(kind.id == key, kind.owner.is_(None))
        session.execute(unclaimed.values(owner=caller.name))
        _require(session.get(kind, key, populate_existing=True), caller)


def _require(row: Worker | Learner | None, caller: Principal) -> None:
    if row is None or row.owner in (None, caller.name):
        return
    kind = "worker" if isinstance(row, Worker) else "learner"
    rule = f"{kind} {row.name!r} belongs to token {row.owner!r}"
    way_out = f"use that token, or another name for the {kind}; `league token renew` gives a lost token a new secret"
    raise ForbiddenError(f"of token {caller.name!r}", rule, way_out)
