"""Workers attach, and are trusted or not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import chain, count
from typing import Any

import numpy as np
from pydantic_core import to_json
from sqlalchemy import (
    JSON,
    ColumnElement,
    Insert,
    Row,
    Select,
    String,
    Update,
    bindparam,
    false,
    func,
    literal_column,
    select,
    true,
    update,
)
from sqlalchemy import cast as as_type
from sqlalchemy.orm import InstrumentedAttribute, Session

from league import wire
from league.auth import Principal
from league.config import Settings
from league.db.bulk import among_bound, listed
from league.db.models import Base, Quarantine, UnplayableReport, Worker
from league.db.upsert import insert_of
from league.errors import UnknownWorkerError, WorkerQuarantinedError
from league.services import events, gate_pairs, ownership
from league.services.polling import next_poll_s

_ID_BYTES = 8
_SEEN = ("version", "signatures", "command", "seen_at")
"""Columns that are as a worker last registered."""

Columns = dict[str, Any]
_QUARANTINE = select(Quarantine).where(Quarantine.worker_id == bindparam("worker"), Quarantine.lifted_at.is_(None))

# without the object mapper, which costs more than these statements
_WORKERS, _QUARANTINES, _REPORTS = (
    Base.metadata.tables[each.__tablename__] for each in (Worker, Quarantine, UnplayableReport)
)
_PRESENT = (_QUARANTINES.c.worker_id == _WORKERS.c.id) & _QUARANTINES.c.lifted_at.is_(None)
TRUST = (
    select(
        _WORKERS.c.name,
        _WORKERS.c.signatures,
        _QUARANTINES.c.since,
        _QUARANTINES.c.reason,
        select(_REPORTS.c.worker_id).where(_REPORTS.c.worker_id == _WORKERS.c.id).exists().label("reported"),
    )
    .select_from(_WORKERS.outerjoin(_QUARANTINES, _PRESENT))
    .where(_WORKERS.c.id == bindparam("worker"))
)
"""Selects what `trusted` judges the one called `worker` by."""

_RENEW = (
    update(_WORKERS)
    .where(_WORKERS.c.id == bindparam("of_id"))
    .values({name: bindparam(name) for name in _SEEN} | {"owner": func.coalesce(bindparam("owner"), _WORKERS.c.owner)})
)

Key = tuple[str, str, str]
"""What a worker is known by: its kind, and its instance or, where it says none, its name; the column and its value."""


@dataclass(frozen=True)
class Trusted:
    """A worker that may have leases: the environment signatures that it plays, and whether it ever could not."""

    signatures: Sequence[str]
    reported: bool


@dataclass(frozen=True)
class Registration:
    """A worker that attaches, and who asks for it when; chance gives it an id."""

    request: wire.WorkerCreate
    caller: Principal
    now: datetime
    rng: np.random.Generator


@dataclass(frozen=True)
class _Known:
    """A worker that is there."""

    id: str
    name: str
    owner: str | None


def renew(session: Session, registrations: Sequence[Registration], settings: Settings) -> list[wire.Worker | None]:
    """Attach those workers that are there already, as `register` does, in one statement; None for all others.

    It takes those that are known alike, by their instances or by their names, and of the same key the first.
    """
    column = _key(registrations[0].request)[1]
    first: dict[str, int] = {}
    for place, each in enumerate(registrations):
        kind, by, value = _key(each.request)
        if kind == "trainer" and by == column:  # others have pairs of gates to give back
            first.setdefault(value, place)
    if not first or session.get_bind().dialect.name != "postgresql":  # elsewhere a transaction costs no trips
        return [None] * len(registrations)
    rows = {place: _row(registrations[place]) for place in first.values()}
    values = {"rows": to_json(list(rows.values())).decode(), "chosen": list(first)}
    found = session.connection().execute(_renewing(column), values)
    attached: list[wire.Worker | None] = [None] * len(registrations)
    for worker_id, name, value in found:
        place = first[value]
        row = rows[place] | {"id": worker_id, "name": name}
        attached[place] = _body(row, settings, next_poll_s(settings, registrations[place].rng))
    return attached


@cache
def _renewing(column: str) -> Update:
    """Build the statement of `renew`: as `_RENEW` for many, of those that `_may_renew`."""
    blank: ColumnElement[Any] = literal_column(f"NULL::{_WORKERS.name}")
    given = func.json_populate_recordset(blank, as_type(bindparam("rows", type_=String), JSON))
    new = given.table_valued("kind", column, "owner", *_SEEN, name="new")
    known = _WORKERS.c[column]
    proven = _WORKERS.c.owner.is_(None) if column == Worker.instance.key else false()
    alike = known == new.c[column], among_bound("postgresql", known, "chosen"), _WORKERS.c.kind == new.c.kind
    changes = {name: new.c[name] for name in _SEEN}
    renewal = update(_WORKERS).where(*alike, new.c.owner.is_(None) | (_WORKERS.c.owner == new.c.owner) | proven)
    owned = renewal.values(changes | {"owner": func.coalesce(new.c.owner, _WORKERS.c.owner)})
    return owned.returning(_WORKERS.c.id, _WORKERS.c.name, known.label("value"))


def register(session: Session, registrations: Sequence[Registration], settings: Settings) -> list[wire.Worker]:
    """Attach workers. One that comes back keeps its id and forgets old commands.

    It is known by its instance, whatever else has its name; where it says none, by its name, its kind and whose it is.
    A name that is taken gets a number. Pairs of gates that an evaluator of this instance had leased are given back: its
    process is a new one, which plays none of them.

    Raises:
        ForbiddenError: An instance is another token's.
    """
    rows = [_row(each) for each in registrations]
    back = _come_back(session, registrations, rows) if len(rows) > 1 else {}
    attached = []
    for place, (each, row) in enumerate(zip(registrations, rows, strict=True)):
        attach = _attach if each.request.instance is None else _attach_instance
        worker_id, name = back[place] if place in back else attach(session, each.caller, row)
        if each.request.kind in ("evaluator", "entrant") and each.request.instance is not None:
            gate_pairs.give_back(session, worker_id, each.now)
        attached.append(_body(row | {"id": worker_id, "name": name}, settings, next_poll_s(settings, each.rng)))
    return attached


def _row(registration: Registration) -> Columns:
    request, now = registration.request, registration.now
    return {
        "id": registration.rng.bytes(_ID_BYTES).hex(),
        "name": request.name,
        "instance": request.instance,
        "kind": request.kind,
        "version": request.version,
        "signatures": request.signatures,
        "command": "continue",
        "owner": ownership.owner(registration.caller),
        "registered_at": now,
        "seen_at": now,
    }


def _come_back(
    session: Session, registrations: Sequence[Registration], rows: Sequence[Columns]
) -> dict[int, tuple[str, str]]:
    """Renew what workers that were here before say of themselves; return the id and name of each, by place."""
    known = _known(session, [each.request for each in registrations])
    back, renewals = {}, []
    for place, (each, row) in enumerate(zip(registrations, rows, strict=True)):
        key = _key(each.request)
        found = known.get(key)
        if found is None or not _may_renew(each, found):
            continue
        known[key] = replace(found, owner=row["owner"] or found.owner)
        back[place] = found.id, found.name
        renewals.append({name: row[name] for name in (*_SEEN, "owner")} | {"of_id": found.id})
    if renewals:
        session.connection().execute(_RENEW, renewals)
    return back


@cache
def _finding(dialect: str, column: InstrumentedAttribute[Any]) -> Select[*tuple[Any, ...]]:
    """Build the statement that finds workers by a column and their kinds, and lets nobody change them meanwhile."""
    query = select(Worker.kind, column.label("value"), Worker.id, Worker.name, Worker.owner)
    alike = among_bound(dialect, Worker.kind, "kinds"), among_bound(dialect, column, "chosen")
    return query.where(*alike).order_by(Worker.id).with_for_update()


def _known(session: Session, requests: Sequence[wire.WorkerCreate]) -> dict[Key, _Known]:
    """Find those of the workers that are there."""
    dialect = session.get_bind().dialect.name
    kinds = listed(dialect, {each.kind for each in requests})
    names = {each.name for each in requests if each.instance is None}
    instances = {each.instance for each in requests if each.instance is not None}
    found: dict[Key, _Known] = {}
    for column, chosen in ((Worker.name, names), (Worker.instance, instances)):
        if chosen:
            values = {"kinds": kinds, "chosen": listed(dialect, chosen)}
            rows = session.connection().execute(_finding(dialect, column), values)
            found |= {(row.kind, column.key, row.value): _Known(row.id, row.name, row.owner) for row in rows}
    return found


def _key(request: wire.WorkerCreate) -> Key:
    if request.instance is None:
        return request.kind, Worker.name.key, request.name
    return request.kind, Worker.instance.key, request.instance


def _may_renew(registration: Registration, found: _Known) -> bool:
    """Say whether a worker is the caller's to take up; nobody's is by its instance, which nobody else knows."""
    unclaimed = found.owner is None and registration.request.instance is not None
    return unclaimed or ownership.may_write(registration.caller, found.owner)


@dataclass(frozen=True)
class _Attaching:
    """The statements that attach a worker, each of which returns id and name of the worker that it found or made.

    They take the columns of a row; those that look for a worker take kind, name and instance as `of_...` besides.

    Attributes:
        by_name: Find the caller's worker of a name, or make one; returns nothing where the name is another's.
        proven: Find the worker of an instance, if the caller may write for it.
        nameless: Find the caller's worker of a name that has no instance yet.
        new: Make one; returns nothing where name or instance is taken.
    """

    by_name: Insert
    proven: Update
    nameless: Update
    new: Insert


@cache
def _attaching(dialect: str, bound: bool) -> _Attaching:
    """Build the statements once: that costs as much as to execute them.

    Args:
        dialect: Of the database.
        bound: Whether the caller may write only for what is its own; see `ownership.bound`.
    """
    found = _WORKERS.c.id, _WORKERS.c.name
    mine = _WORKERS.c.owner == bindparam("of_owner") if bound else true()
    of_kind = _WORKERS.c.kind == bindparam("of_kind")
    same = _WORKERS.c.instance == bindparam("of_instance")
    alike = _WORKERS.c.instance.is_(None) & (_WORKERS.c.name == bindparam("of_name"))
    insert = insert_of(dialect, _WORKERS)
    by_name = insert.on_conflict_do_update(
        index_elements=[_WORKERS.c.name, _WORKERS.c.kind],
        set_={name: insert.excluded[name] for name in _changing(bound)},
        where=_WORKERS.c.owner == insert.excluded.owner if bound else None,
    )
    return _Attaching(
        by_name=by_name.returning(*found),
        proven=update(_WORKERS).where(of_kind, same, mine | _WORKERS.c.owner.is_(None)).returning(*found),
        nameless=update(_WORKERS).where(of_kind, alike, mine).returning(*found),
        new=insert.on_conflict_do_nothing().returning(*found),
    )


def _statements(session: Session, caller: Principal) -> _Attaching:
    return _attaching(session.get_bind().dialect.name, ownership.bound(caller))


def _changing(bound: bool) -> tuple[str, ...]:
    """Name what changes about a worker that comes back: an admin takes none away from its token."""
    return (*_SEEN, "owner") if bound else _SEEN


def _attach(session: Session, caller: Principal, row: Columns) -> tuple[str, str]:
    """Find the caller's worker of this name, or make one; return its id and name."""
    statement = _statements(session, caller).by_name
    for name in _names(row["name"]):
        found = session.connection().execute(statement, row | {"name": name}).one_or_none()
        if found is not None:
            return found.id, found.name
    raise AssertionError("names do not end")


def _attach_instance(session: Session, caller: Principal, row: Columns) -> tuple[str, str]:
    """Find the worker of this instance, or make one; the caller's of the name without an instance becomes it."""
    statements, bound = _statements(session, caller), ownership.bound(caller)
    changes = {name: row[name] for name in (*_changing(bound), "instance")}
    which = {"of_kind": row["kind"]} | ({"of_owner": caller.name} if bound else {})
    for name in _free_names(session, row["name"], row["kind"]):
        for statement, values in (
            (statements.proven, changes | which | {"of_instance": row["instance"]}),
            (statements.nameless, changes | which | {"of_name": row["name"]}),
            (statements.new, row | {"name": name}),
        ):
            found = session.connection().execute(statement, values).one_or_none()
            if found is not None:
                return found.id, found.name
        if bound:
            same = Worker.kind == row["kind"], Worker.instance == row["instance"]
            ownership.require(session.scalar(select(Worker).where(*same)), caller)
    raise AssertionError("names do not end")


def _names(name: str) -> Iterator[str]:
    """Return the name itself, and then with a number behind it."""
    return chain([name], _numbered(name, 2))


def _free_names(session: Session, name: str, kind: str) -> Iterator[str]:
    """Return the name itself, and then with numbers from about where they are free: a fleet may share one name."""
    yield name
    alike = Worker.kind == kind, Worker.name.startswith(f"{name} #", autoescape=True)
    yield from _numbered(name, 2 + (session.scalar(select(func.count()).where(*alike)) or 0))


def _numbered(name: str, first: int) -> Iterator[str]:
    return (f"{name} #{number}" for number in count(first))


def command(
    session: Session, settings: Settings, worker_id: str, request: wire.CommandRequest, actor: str, now: datetime
) -> wire.Worker:
    """Set what a worker is told at its next heartbeat.

    Raises:
        UnknownWorkerError: There is no such worker.
    """
    worker = require(session, worker_id)
    before, worker.command = worker.command, request.command
    record(session, f"{request.command}-worker", worker, {"from": before}, actor=actor, reason=request.reason, now=now)
    return body(worker, settings, settings.next_poll_s)


def present(session: Session, heartbeat_s: float, now: datetime) -> int:
    """Count workers that have shown that they live since the latest time at which they had to, and as long before."""
    alive = _WORKERS.c.seen_at > now - timedelta(seconds=2.0 * heartbeat_s)
    return session.connection().execute(select(func.count()).where(alive)).scalar_one()


def record(
    session: Session, kind: str, worker: Worker, details: dict[str, str], *, actor: str, reason: str, now: datetime
) -> None:
    """Write a line about a worker into the audit log, as the last thing of its transaction."""
    told = {"worker_id": worker.id, "worker": worker.name, **details}
    events.record(session, kind, environment=None, player_id=None, actor=actor, reason=reason, details=told, now=now)


def require(session: Session, worker_id: str) -> Worker:
    """Return a worker.

    Raises:
        UnknownWorkerError: There is no such worker.
    """
    worker = session.get(Worker, worker_id)
    if worker is None:
        raise unknown(worker_id)
    return worker


def require_trusted(session: Session, worker_id: str) -> Trusted:
    """Refuse leases to a worker that must not have any.

    Raises:
        UnknownWorkerError: There is no such worker.
        WorkerQuarantinedError: It is quarantined.
    """
    return trusted(worker_id, session.connection().execute(TRUST, {"worker": worker_id}).one_or_none())


def trusted(worker_id: str, found: Row[*tuple[Any, ...]] | None) -> Trusted:
    """Refuse leases to a worker that must not have any, given what `TRUST` selects of it.

    Raises:
        UnknownWorkerError: There is no such worker.
        WorkerQuarantinedError: It is quarantined.
    """
    if found is None:
        raise unknown(worker_id)
    if found.since is not None:
        rule = f"what it reports since {found.since:%Y-%m-%dT%H:%M:%SZ} does not count ({found.reason})"
        way_out = f"mend it, then have the league's keeper run `league workers reinstate {found.name!r}`"
        raise WorkerQuarantinedError(found.name, rule, way_out)
    return Trusted(found.signatures, found.reported)


def quarantine_of(session: Session, worker_id: str) -> Quarantine | None:
    """Return the quarantine that a worker is in."""
    return session.scalar(_QUARANTINE, {"worker": worker_id})


def quarantine_body(quarantine: Quarantine) -> wire.Quarantine:
    """Return a quarantine as the wire has it."""
    return wire.Quarantine(
        since=quarantine.since,
        until=quarantine.until,
        reason=quarantine.reason,
        actor=quarantine.actor,
        imposed_at=quarantine.imposed_at,
        lifted_at=quarantine.lifted_at,
    )


def unknown(worker_id: str) -> UnknownWorkerError:
    """Return the error about a worker that does not exist."""
    return UnknownWorkerError(worker_id, "no worker has this id", "register with POST /workers")


def body(worker: Worker, settings: Settings, poll_s: float) -> wire.Worker:
    """Return a worker as the wire has it."""
    return _body({name: getattr(worker, name) for name in ("id", "name", "kind", *_SEEN)}, settings, poll_s)


def _body(row: Mapping[str, Any], settings: Settings, poll_s: float) -> wire.Worker:
    shown = {name: row[name] for name in ("id", "name", "kind", *_SEEN)}
    return wire.Worker.model_validate(shown | {"heartbeat_s": settings.heartbeat_s, "next_poll_s": poll_s})
