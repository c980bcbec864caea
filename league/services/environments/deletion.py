"""Deletion of an environment with its learners, players, matches, ratings, leases and gates.

The audit log stays. Its entries move the environment and the player to their details, so that a new environment with
the same name has no history. `league admin gc` deletes the checkpoints and recordings.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Delete, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from league.db import locks
from league.db.bulk_insert import among
from league.db.engine import Database
from league.db.group_commit import one_by_one
from league.db.locks import Lock
from league.db.models import (
    Behaviour,
    Champion,
    Draw,
    Environment,
    Event,
    Gate,
    LeaderLease,
    Learner,
    LearnerProgress,
    Lease,
    Match,
    MetricPoint,
    PairModelFit,
    Payoff,
    Period,
    Player,
    PlayerTag,
    Rating,
    Refusal,
    Replay,
    Run,
    SidePayoff,
    SnapshotDecision,
    UnplayableReport,
)
from league.errors import EnvironmentConflictError
from league.services.environments import listing as environment_listing
from league.services.environments import lookup as environments

_TRIES = 3
_AT_ONCE = 1000


@dataclass(frozen=True)
class EnvironmentContents:
    """Contents of an environment.

    Attributes:
        learners: Number of learners.
        players: Number of players, including learners and baselines.
        matches: Number of matches.
        last_match_id: Id of the newest match, or 0.
        last_player_id: Id of the newest player, or 0.
    """

    learners: int
    players: int
    matches: int
    last_match_id: int
    last_player_id: int


def survey(session: Session, environment: str) -> EnvironmentContents:
    """Return the contents of an environment.

    Raises:
        UnknownEnvironmentError: The environment does not exist.
    """
    if not environments.is_created(session, environment):
        raise environments.unknown(session, environment)
    players = select(func.count(), func.max(Player.id)).where(Player.environment == environment)
    number, last_player_id = session.execute(players).one()
    return EnvironmentContents(
        learners=session.scalar(select(func.count()).where(Learner.environment == environment)) or 0,
        players=number,
        matches=environment_listing.count_matches(session, environment),
        last_match_id=session.scalar(select(func.max(Match.id)).where(Match.environment == environment)) or 0,
        last_player_id=last_player_id or 0,
    )


def remove(
    database: Database, environment: str, exported: EnvironmentContents | None, *, actor: str, now: datetime
) -> EnvironmentContents:
    """Delete an environment without matches, or one that has not changed since its export; servers may run.

    A concurrent result is either committed before, which aborts the deletion, or rejected after it.

    Args:
        database: The league's tables.
        environment: Name of the environment.
        exported: Its contents before the export, or None.
        actor: Actor for the audit log.
        now: The time.

    Returns:
        The deleted contents.

    Raises:
        UnknownEnvironmentError: The environment does not exist.
        EnvironmentConflictError: It has matches and was not exported, or it has changed since.
    """

    def work(session: Session) -> EnvironmentContents:
        return _remove(session, environment, exported, actor, now)

    for _ in range(_TRIES - 1):
        try:
            return database.group_commit(one_by_one, work)
        except IntegrityError:  # new leases were granted concurrently: read again
            continue
    return database.group_commit(one_by_one, work)


def _remove(
    session: Session, environment: str, exported: EnvironmentContents | None, actor: str, now: datetime
) -> EnvironmentContents:
    # In the lock order of `league.db.locks`: no period, result or player can be added until the deletion commits.
    locks.acquire(session, Lock.PERIOD, environment)
    locks.acquire(session, Lock.INTAKE, environment)
    locks.acquire(session, Lock.POPULATION)
    session.execute(select(Environment).where(Environment.name == environment).with_for_update()).all()  # see leases
    locks.acquire(session, Lock.EVENTS)
    contents = survey(session, environment)
    _require_removable(environment, contents, exported)
    _detach_events(session, environment)
    draws = session.scalars(select(Lease.draw_id).where(Lease.environment == environment).distinct()).all()
    for statement in _deletions(environment):
        session.execute(statement.execution_options(synchronize_session=False))
    _delete_draws(session, draws)
    counts = {name: number for name, number in asdict(contents).items() if not name.startswith("last_")}
    # SQLite reuses ids above the maximum; readers of the event stream reset their cursor to this one.
    left = {"last_match_id": session.scalar(select(func.max(Match.id))) or 0}
    environment_listing.record(session, "deleted", environment, counts | left, actor=actor, now=now)
    return contents


def _require_removable(environment: str, contents: EnvironmentContents, exported: EnvironmentContents | None) -> None:
    if exported is None and contents.matches:
        rule = f"it has {contents.matches:,} matches and was not exported"
        remedy = "add `--force --export FILE`, which exports the whole league to FILE first"
        raise EnvironmentConflictError(environment, rule, remedy)
    if exported is not None and contents != exported:
        matches, players = contents.matches - exported.matches, contents.players - exported.players
        rule = f"{matches:,} matches and {players:,} players were added during the export, so nothing was deleted"
        remedy = "stop its trainers and evaluators, then run the command again with another file"
        raise EnvironmentConflictError(environment, rule, remedy)


def _detach_events(session: Session, environment: str) -> None:
    """Detach audit entries from deleted rows."""
    players = select(Player.id).where(Player.environment == environment)
    own = or_(Event.environment == environment, Event.player_id.in_(players))
    found = session.execute(select(Event.id, Event.player_id, Event.details).where(own)).all()
    for event_id, player_id, details in found:
        detached: dict[str, Any] = {**details, "environment": environment}
        if player_id is not None:
            detached["player_id"] = player_id
        changed = update(Event).where(Event.id == event_id)
        session.execute(changed.values(environment=None, player_id=None, details=detached))


def _deletions(environment: str) -> Sequence[Delete]:
    """Return the statements that delete an environment's rows in the order of their references, except draws."""
    players = select(Player.id).where(Player.environment == environment)
    learners = select(Learner.id).where(Learner.environment == environment)
    matches = select(Match.id).where(Match.environment == environment)
    leases = select(Lease.id).where(Lease.environment == environment)
    return (
        delete(Behaviour).where(Behaviour.match_id.in_(matches)),
        delete(Replay).where(Replay.match_id.in_(matches)),
        delete(Refusal).where(or_(Refusal.lease_id.in_(leases), Refusal.match_id.in_(matches))),
        delete(Match).where(Match.environment == environment),
        delete(Lease).where(Lease.environment == environment),
        delete(PlayerTag).where(PlayerTag.player_id.in_(players)),
        delete(Rating).where(Rating.player_id.in_(players)),
        delete(UnplayableReport).where(UnplayableReport.player_id.in_(players)),
        *(
            delete(table).where(table.learner_id.in_(learners))
            for table in (SnapshotDecision, MetricPoint, LearnerProgress)
        ),
        *(
            delete(table).where(table.environment == environment)
            for table in (Payoff, SidePayoff, Champion, Gate, PairModelFit, Period, Player)
        ),
        delete(Run).where(Run.learner_id.in_(learners)),
        delete(Learner).where(Learner.environment == environment),
        delete(Environment).where(Environment.name == environment),
        delete(LeaderLease).where(LeaderLease.task == f"periods of {environment}"),
    )


def _delete_draws(session: Session, draws: Sequence[str]) -> None:
    """Delete draws without leases; a foreign key rejects concurrent leases of them."""
    left = select(Lease.id).where(Lease.draw_id == Draw.id).exists()
    for start in range(0, len(draws), _AT_ONCE):
        statement = delete(Draw).where(among(session, Draw.id, draws[start : start + _AT_ONCE]), ~left)
        session.execute(statement.execution_options(synchronize_session=False))
