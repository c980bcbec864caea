"""Registration of workers, by their name or by the instance that only they know."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import chain, count
from typing import Any

import numpy as np
from pydantic_core import to_json
from sqlalchemy import Insert, Update, bindparam, false, func, select, true, update
from sqlalchemy.orm import Session

from league import wire
from league.auth import Principal
from league.db.bulk_insert import among_bound, bound_rows, listed
from league.db.models import Base, Gate, Lease, Worker
from league.db.upsert import insert_of
from league.services.auth import ownership
from league.services.workers import service as workers
from league.services.workers.polling import next_poll_s
from league.settings import Settings

_ID_BYTES = 8
_SEEN = ("version", "signatures", "command", "seen_at")
"""Columns that are as a worker last registered."""

_WORKERS = Base.metadata.tables[Worker.__tablename__]  # the object mapper costs more than these statements

Columns = dict[str, Any]
FoundWorker = tuple[str, str]
"""The id and the name of a worker."""


@dataclass(frozen=True)
class Registration:
    """A worker that attaches, and who asks for it when; chance gives it an id."""

    request: wire.WorkerCreate
    caller: Principal
    now: datetime
    rng: np.random.Generator


def renew(session: Session, registrations: Sequence[Registration], settings: Settings) -> list[wire.Worker | None]:
    """Attach those workers that are there already, as `register` does, in one statement; None for all others.

    It takes those that are known alike, by their instances or by their names, and of the same key the first.
    """
    attached: list[wire.Worker | None] = [None] * len(registrations)
    if session.get_bind().dialect.name != "postgresql":  # elsewhere a transaction costs no trips
        return attached
    by = _known_by(registrations[0].request)
    rows = {
        place: _row(each)
        for place, each in enumerate(registrations)
        if _known_by(each.request) == by and not _gives_back(each.request)
    }
    for place, found in _come_back(session, rows, by).items():
        attached[place] = _told(registrations[place], rows[place], found, settings)
    return attached


def register(session: Session, registrations: Sequence[Registration], settings: Settings) -> list[wire.Worker]:
    """Attach workers. One that comes back keeps its id and forgets old commands.

    It is known by its instance, whatever else has its name; where it says none, by its name, its kind and whose it is.
    A name that is taken gets a number. Pairs of gates that an evaluator of this instance had leased are given back: its
    process is a new one, which plays none of them.

    Raises:
        ForbiddenError: An instance is another token's.
    """
    rows = {place: _row(each) for place, each in enumerate(registrations)}
    back: dict[int, FoundWorker] = {}
    for by in ("name", "instance") if len(rows) > 1 else ():
        alike = {place: row for place, row in rows.items() if _known_by(registrations[place].request) == by}
        back |= _come_back(session, alike, by)
    attached = []
    for place, each in enumerate(registrations):
        attach = _attach if each.request.instance is None else _attach_instance
        found = back[place] if place in back else attach(session, each.caller, rows[place])
        if _gives_back(each.request):
            _give_back(session, found[0], each.now)
        attached.append(_told(each, rows[place], found, settings))
    return attached


def _known_by(request: wire.WorkerCreate) -> str:
    """Name the column that a worker is known by, beside its kind."""
    return "name" if request.instance is None else "instance"


def _give_back(session: Session, worker_id: str, now: datetime) -> None:
    """End the leases that an evaluator holds for open gates: who attaches anew plays none of them any more.

    What it reports of them later is kept and does not count for the gate, which need not wait for it.
    """
    still_open = session.scalars(select(Gate.id).where(Gate.state == "open")).all()
    if still_open:
        held = Lease.worker_id == worker_id, Lease.state == "open", Lease.expires_at > now
        session.execute(
            update(Lease)
            .where(*held, Lease.gate_id.in_(still_open))
            .values(released_at=now, state="released")
            .execution_options(synchronize_session=False)
        )


def _gives_back(request: wire.WorkerCreate) -> bool:
    """Say whether pairs of gates are given back when a worker attaches."""
    return request.kind != "trainer" and request.instance is not None


def _told(registration: Registration, row: Columns, found: FoundWorker, settings: Settings) -> wire.Worker:
    columns = row | dict(zip(("id", "name"), found, strict=True))
    return workers.body_of(columns, settings, next_poll_s(settings, registration.rng))


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


def _come_back(session: Session, rows: Mapping[int, Columns], by: str) -> dict[int, FoundWorker]:
    """Renew what workers that were here before say of themselves; return the id and name of each, by place.

    Who may not take up a worker, or comes second under a key, is left out.
    """
    first: dict[tuple[str, str], int] = {}
    for place, row in rows.items():
        first.setdefault((row["kind"], row[by]), place)
    if not first:
        return {}
    dialect = session.get_bind().dialect.name
    values = {
        "rows": to_json([rows[place] for place in first.values()]).decode(),
        "chosen": listed(dialect, {value for _, value in first}),
        "now": max(row["seen_at"] for row in rows.values()),
    }
    found = session.connection().execute(_renewing(dialect, by), values)
    return {first[kind, value]: (worker_id, name) for worker_id, name, kind, value in found}


@cache
def _renewing(dialect: str, by: str) -> Update:
    """Build the statement that renews workers which are known by a column: the caller's, and all for an admin.

    Nobody's becomes a token's by its instance, which nobody else knows.
    """
    new, known = bound_rows(dialect, _WORKERS, ("kind", by, "owner", *_SEEN), "rows"), _WORKERS.c[by]
    alike = known == new.c[by], _WORKERS.c.kind == new.c.kind, among_bound(dialect, known, "chosen")
    proven = _WORKERS.c.owner.is_(None) if by == "instance" else false()
    renewal = update(_WORKERS).where(*alike, new.c.owner.is_(None) | (_WORKERS.c.owner == new.c.owner) | proven)
    owner = func.coalesce(new.c.owner, _WORKERS.c.owner)
    renewal = renewal.values({name: new.c[name] for name in _SEEN} | {"owner": owner, "seen_at": bindparam("now")})
    return renewal.returning(_WORKERS.c.id, _WORKERS.c.name, _WORKERS.c.kind, known.label("value"))


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
        bound: Whether the caller may write only for what is its own; see `ownership.is_restricted`.
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
    return _attaching(session.get_bind().dialect.name, ownership.is_restricted(caller))


def _changing(bound: bool) -> tuple[str, ...]:
    """Name what changes about a worker that comes back: an admin takes none away from its token."""
    return (*_SEEN, "owner") if bound else _SEEN


def _attach(session: Session, caller: Principal, row: Columns) -> FoundWorker:
    """Find the caller's worker of this name, or make one; return its id and name."""
    statement = _statements(session, caller).by_name
    for name in _names(row["name"]):
        found = session.connection().execute(statement, row | {"name": name}).one_or_none()
        if found is not None:
            return found.id, found.name
    raise AssertionError("names do not end")


def _attach_instance(session: Session, caller: Principal, row: Columns) -> FoundWorker:
    """Find the worker of this instance, or make one; the caller's of the name without an instance becomes it."""
    statements, bound = _statements(session, caller), ownership.is_restricted(caller)
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
