"""Runs: the training processes of learners, with their settings and origin."""

from datetime import datetime
from operator import attrgetter

from pydantic import JsonValue
from sqlalchemy import Row, Select, func, select
from sqlalchemy.orm import Session

from league import wire
from league.db import locks
from league.db.locks import Lock
from league.db.models import Learner, Player, Run
from league.db.upsert import insert_into
from league.errors import InvalidRequestError, UnknownRunError
from league.pagination import Page, paginate
from league.run_text import flatten
from league.services.environments import lookup as environments
from league.services.population import learners


def start(session: Session, request: wire.RunCreate, now: datetime) -> wire.Run:
    """Store a run; return the existing one if the learner has a run with this key.

    Raises:
        UnknownLearnerError: There is no such learner.
    """
    locks.acquire(session, Lock.POPULATION)
    learners.require(session, request.learner_id)
    row = request.model_dump() | {"started_at": now}
    # A call that is sent again after a lost answer finds the run of the first one.
    session.execute(insert_into(session, Run).values(row).on_conflict_do_nothing())
    same = Run.learner_id == request.learner_id, Run.key == request.key
    return _body(session.execute(_query().where(*same)).one())


def require_own(session: Session, run_id: int, learner_id: int) -> None:
    """Reject a run that does not exist or belongs to another learner.

    Raises:
        UnknownRunError: There is no such run.
        InvalidRequestError: It is a run of another learner.
    """
    owner = session.scalar(select(Run.learner_id).where(Run.id == run_id))
    if owner is None:
        raise _unknown(run_id)
    if owner != learner_id:
        rule = f"it is a run of learner {owner}, not of learner {learner_id}"
        raise InvalidRequestError(f"run_id={run_id}", rule, "send the id of a run of the same learner, or none")


def show(session: Session, run_id: int) -> wire.Run:
    """Return one run.

    Raises:
        UnknownRunError: There is no such run.
    """
    row = session.execute(_query().where(Run.id == run_id)).one_or_none()
    if row is None:
        raise _unknown(run_id)
    return _body(row)


def list_runs(
    session: Session, environment: str | None, learner_id: int | None, limit: int, cursor: int | None = None
) -> Page[wire.Run]:
    """List runs, newest first, of all environments or one, and of all learners or one.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not this one.
    """
    environments.require_known(session, environment)
    query = _query()
    if environment is not None:
        query = query.where(Learner.environment == environment)
    if learner_id is not None:
        query = query.where(Run.learner_id == learner_id)
    rows = session.execute(paginate(query, Run.id, cursor, limit, newest_first=True))
    return Page.cut(map(_body, rows), limit, attrgetter("id"))


def compare(session: Session, first_id: int, second_id: int) -> list[wire.RunDifference]:
    """Return the seed, settings and parts of the origin in which two runs differ, sorted by name.

    Raises:
        UnknownRunError: One of the runs does not exist.
    """
    first, second = (_values(show(session, run_id)) for run_id in (first_id, second_id))
    return [
        wire.RunDifference(name=name, first=first.get(name), second=second.get(name))
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
    ]


def _query() -> "Select[Run, str, str, int, int]":
    """Select runs with their learner's name, environment and player id, and their number of snapshots."""
    published = select(func.count()).where(Player.run_id == Run.id).correlate(Run).scalar_subquery()
    return (
        select(Run, Learner.name, Learner.environment, Player.id, published)
        .join(Learner, Learner.id == Run.learner_id)
        .join(Player, (Player.learner_id == Learner.id) & (Player.kind == "learner"))
    )


def _body(row: "Row[Run, str, str, int, int]") -> wire.Run:
    run, learner, environment, player_id, snapshots = row
    return wire.Run.of(run, learner=learner, environment=environment, player_id=player_id, snapshots=snapshots)


def _unknown(run_id: int) -> UnknownRunError:
    return UnknownRunError(run_id, "no run has this id", "list them with GET /runs")


def _values(run: wire.Run) -> dict[str, JsonValue]:
    """Return the seed, settings and origin of a run by their path, such as `settings.ppo.learning_rate`."""
    return dict(flatten({"seed": run.seed, "settings": run.settings, "origin": run.origin}))
