"""Registration of workers: one upsert, with an id derived from the instance or from owner, kind and name."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Insert, Table, select, update
from sqlalchemy.orm import Session

from league import wire
from league.auth import Principal
from league.db import locks
from league.db.bulk_insert import among
from league.db.locks import Lock
from league.db.models import Base, Gate, Lease, Worker
from league.db.upsert import insert_of
from league.services.auth import ownership

_ID_DIGITS = 16
_CHANGED = ("version", "signatures", "command", "owner", "seen_at")
"""Columns that a repeated registration overwrites."""

_WORKERS: Table = Base.metadata.tables[Worker.__tablename__]  # Core, not ORM: object mapping costs more

Columns = dict[str, Any]


@dataclass(frozen=True)
class Registration:
    """Registration request of a worker, its caller and the time."""

    request: wire.WorkerCreate
    caller: Principal
    now: datetime


def register(session: Session, registrations: Sequence[Registration]) -> list[Columns]:
    """Upsert workers and return their rows. A returning worker keeps its id and name, and its command is reset.

    The id follows from the worker's instance, or without one from its name, kind and owner. If another worker has the
    name, a number is appended. Leases that a returning evaluator instance holds for gates are released, because a new
    process does not play them.

    Raises:
        ForbiddenError: The instance belongs to another token.
    """
    locks.acquire(session, Lock.WORKERS)  # between reading owners and names, and writing them
    ids = [_worker_id(each) for each in registrations]
    found = session.connection().execute(select(_WORKERS).where(among(session, Worker.id, set(ids)))).mappings()
    known: dict[str, Columns] = {row["id"]: dict(row) for row in found}
    rows: dict[str, Columns] = {}
    for worker_id, each in zip(ids, registrations, strict=True):
        previous = rows.get(worker_id) or known.get(worker_id)
        # One row per worker, because PostgreSQL rejects an upsert that changes a row twice.
        rows[worker_id] = _row(worker_id, each, previous)
    _name_new_workers(session, [row for worker_id, row in rows.items() if worker_id not in known])
    session.connection().execute(_upsert(session.get_bind().dialect.name), list(rows.values()))
    for worker_id, each in zip(ids, registrations, strict=True):
        if each.request.kind != "trainer" and each.request.instance is not None:
            _release_gate_leases(session, worker_id, each.now)
    return [rows[worker_id] for worker_id in ids]


def _worker_id(registration: Registration) -> str:
    """Derive the worker's id, which is the same at every registration and on every server."""
    request = registration.request
    key: tuple[str | None, ...]
    if request.instance is None:
        key = "name", request.kind, request.name, ownership.owner(registration.caller)
    else:
        key = "instance", request.kind, request.instance
    return hashlib.sha256(repr(key).encode()).hexdigest()[:_ID_DIGITS]


def _row(worker_id: str, registration: Registration, previous: Columns | None) -> Columns:
    """Return a worker's row. A worker without an owner becomes the caller's.

    Raises:
        ForbiddenError: The worker belongs to another token.
    """
    request, caller, now = registration.request, registration.caller, registration.now
    if previous is not None and previous["owner"] is not None and ownership.is_restricted(caller):
        ownership.require(Worker(**previous), caller)
    return {
        "id": worker_id,
        "name": request.name if previous is None else previous["name"],
        "instance": request.instance,
        "kind": request.kind,
        "version": request.version,
        "signatures": request.signatures,
        # A command such as `drain` was for the process before.
        "command": "continue",
        "owner": ownership.owner(caller) or (None if previous is None else previous["owner"]),
        "registered_at": now if previous is None else previous["registered_at"],
        "seen_at": now,
    }


def _name_new_workers(session: Session, rows: Sequence[Columns]) -> None:
    """Append a number to names that are taken, because all workers of a fleet may share one name."""
    if not rows:
        return
    names = {row["name"] for row in rows}
    query = select(Worker.kind, Worker.name).where(among(session, Worker.name, names))
    taken = {(kind, name) for kind, name in session.execute(query)}
    numbered: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        key = row["kind"], row["name"]
        if key in taken:
            if key not in numbered:
                numbered[key] = _numbered(session, *key)
            row["name"] = _first_free(key[1], numbered[key])
            numbered[key].add(row["name"])
        taken.add(key)


def _numbered(session: Session, kind: str, name: str) -> set[str]:
    numbered = select(Worker.name).where(Worker.kind == kind, Worker.name.startswith(f"{name} #", autoescape=True))
    return set(session.scalars(numbered))


def _first_free(name: str, taken: Collection[str]) -> str:
    # Starts behind the names that exist, so that a fleet of N workers does not try N names each.
    number = 2 + len(taken)
    while f"{name} #{number}" in taken:
        number += 1
    return f"{name} #{number}"


@cache
def _upsert(dialect: str) -> Insert:
    """Build the upsert once: building it costs as much as executing it."""
    insert = insert_of(dialect, _WORKERS)
    return insert.on_conflict_do_update(
        index_elements=[_WORKERS.c.id], set_={name: insert.excluded[name] for name in _CHANGED}
    )


def _release_gate_leases(session: Session, worker_id: str, now: datetime) -> None:
    """Release an evaluator's leases of open gates, which a new process does not play.

    Results that still arrive for them are stored, but they do not count for the gate, which need not wait for them.
    """
    still_open = session.scalars(select(Gate.id).where(Gate.state == "open")).all()
    if still_open:
        current = Lease.worker_id == worker_id, Lease.state == "open", Lease.expires_at > now
        session.execute(
            update(Lease)
            .where(*current, Lease.gate_id.in_(still_open))
            .values(released_at=now, state="released")
            .execution_options(synchronize_session=False)
        )
