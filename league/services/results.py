"""Results come in, exactly once.

The key of a result is (lease, sequence). The first payload under a key stays; the same again is a duplicate, another
one a conflict. Whether a key is new is decided by the unique index, so racing requests agree.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from league import wire
from league.config import Settings
from league.db import locks
from league.db.locks import Lock
from league.db.models import Lease, Match
from league.db.upsert import insert_into
from league.services import workers

INTEGER_LIMIT = 2**63  # what both databases store
REASON_MAX_LENGTH = 64
_HASH_BYTES = 16
_CHUNK = 500

Key = tuple[str, int]
Stored = dict[Key, tuple[int, bytes]]
T = TypeVar("T")


def submit(session: Session, settings: Settings, batch: wire.ResultBatch, now: datetime) -> list[wire.ResultAnswer]:
    """Take in a worker's results; answer each on its own, in order.

    Raises:
        UnknownWorkerError: There is no such worker.
    """
    worker = workers.require(session, batch.worker_id)
    leases = _leases(session, sorted({result.lease_id for result in batch.results if "\0" not in result.lease_id}))
    budgets = {lease.id: lease.budget for lease in leases.values()}
    possible = [result for result in batch.results if 0 <= result.sequence < budgets.get(result.lease_id, 0)]
    stored = _stored(session, possible)
    fresh, refusals = _judge(batch.results, leases, stored, worker.id, settings, now)
    rows = [_row(batch.results[place], leases[lease_id], now) for (lease_id, _), place in sorted(fresh.items())]
    inserted = _insert(session, rows)
    stored = (stored if len(inserted) == len(fresh) else _stored(session, possible)) | inserted
    accepted = {fresh[key] for key in inserted}
    return [
        _answer(result, "rejected", None, refusals[place])
        if place in refusals
        else _taken(result, place in accepted, *stored[_key(result)], late=now > leases[result.lease_id].expires_at)
        for place, result in enumerate(batch.results)
    ]


def _judge(
    results: Sequence[wire.Result],
    leases: Mapping[str, Lease],
    stored: Stored,
    worker_id: str,
    settings: Settings,
    now: datetime,
) -> tuple[dict[Key, int], dict[int, str]]:
    """Return the first place of each new key, and why the results at other places are refused."""
    refusals: dict[int, str] = {}
    fresh: dict[Key, int] = {}
    for place, result in enumerate(results):
        lease = leases.get(result.lease_id)
        if lease is None:
            refusals[place] = f"unknown lease {result.lease_id[:64]!r}: this league granted no such one; lease anew"
        elif lease.worker_id != worker_id:
            refusals[place] = f"foreign lease {lease.id}: it is another worker's; report your own leases only"
        elif _key(result) not in stored:
            refusal = _refusal(result, lease, settings, now)
            if refusal is None:
                fresh.setdefault(_key(result), place)
            else:
                refusals[place] = refusal
    return fresh, refusals


def _leases(session: Session, lease_ids: Sequence[str]) -> dict[str, Lease]:
    found = (session.scalars(select(Lease).where(Lease.id.in_(chunk))) for chunk in _chunks(lease_ids))
    return {lease.id: lease for leases in found for lease in leases}


def _stored(session: Session, results: Sequence[wire.Result]) -> Stored:
    """Return what is known under the keys of the results, and perhaps under more keys of the same leases."""
    columns = select(Match.lease_id, Match.sequence, Match.id, Match.payload_hash)
    stored: Stored = {}
    for chunk in _chunks(results):
        leases, sequences = {result.lease_id for result in chunk}, {result.sequence for result in chunk}
        rows = session.execute(columns.where(Match.lease_id.in_(leases), Match.sequence.in_(sequences)))
        stored |= {(lease_id, sequence): (key, payload) for lease_id, sequence, key, payload in rows}
    return stored


def _insert(session: Session, rows: Sequence[dict[str, Any]]) -> Stored:
    """Insert what nobody else has inserted meanwhile, in the order of keys, so that racing batches cannot deadlock."""
    for environment in sorted({row["environment"] for row in rows}):
        locks.share(session, Lock.INTAKE, environment)
    if not rows:
        return {}
    statement = insert_into(session, Match).on_conflict_do_nothing()
    new = session.execute(statement.returning(Match.lease_id, Match.sequence, Match.id, Match.payload_hash), rows)
    return {(lease_id, sequence): (key, payload) for lease_id, sequence, key, payload in new}


def _row(result: wire.Result, lease: Lease, now: datetime) -> dict[str, Any]:
    return {
        "lease_id": lease.id,
        "sequence": result.sequence,
        "kind": lease.kind,
        "environment": lease.environment,
        "home_id": lease.home_id,
        "away_id": lease.away_id,
        "score": result.score,
        "decisions": result.decisions,
        "reason": result.reason,
        "seed": result.seed,
        "learner_step": result.learner_step,
        "late": now > lease.expires_at,
        "payload_hash": _payload_hash(result),
        "worker_id": lease.worker_id,
        "reported_at": now,
    }


def _payload_hash(result: wire.Result) -> bytes:
    score = result.score + 0.0  # -0.0 is 0.0
    payload = (score, result.decisions, result.reason, result.seed, result.learner_step)
    return hashlib.blake2b(repr(payload).encode(), digest_size=_HASH_BYTES).digest()


def _refusal(result: wire.Result, lease: Lease, settings: Settings, now: datetime) -> str | None:
    """Say why a new result of an own lease cannot be taken; None where it can."""
    if now > lease.expires_at + timedelta(seconds=settings.lease_grace_s):
        rule = f"it expired at {lease.expires_at:%Y-%m-%dT%H:%M:%SZ}, more than {settings.lease_grace_s:g} s ago"
        return f"expired lease {lease.id}: {rule}; drop the result and lease anew"
    if not 0 <= result.sequence < lease.budget:
        return f"sequence {result.sequence}: the lease is for matches 0 to {lease.budget - 1}; lease anew for more"
    if not (math.isfinite(result.score) and 0 <= result.score <= 1):
        return f"score {result.score}: home's score lies in [0, 1]; report a win as 1, a draw as 0.5, a loss as 0"
    if len(result.reason) > REASON_MAX_LENGTH or "\0" in result.reason:
        start = result.reason[:REASON_MAX_LENGTH]
        rule = f"it has at most {REASON_MAX_LENGTH} characters, none of them NUL"
        return f"reason {start!r}: {rule}; report the outcome's short name"
    for name, value in (("decisions", result.decisions), ("seed", result.seed), ("learner_step", result.learner_step)):
        if value is not None and not 0 <= value < INTEGER_LIMIT:
            return f"{name} {value}: it lies in [0, 2^63); report the match's own"
    return None


def _taken(result: wire.Result, new: bool, match_id: int, payload: bytes, *, late: bool) -> wire.ResultAnswer:
    if new:
        return _answer(result, "accepted", match_id, "late: inside the grace after the lease's end" if late else None)
    if payload == _payload_hash(result):
        return _answer(result, "duplicate", match_id, None)
    detail = (
        f"conflict: sequence {result.sequence} of the lease was reported otherwise as match {match_id}, which stays"
    )
    return _answer(result, "conflict", match_id, detail)


def _answer(
    result: wire.Result, status: wire.ResultStatus, match_id: int | None, detail: str | None
) -> wire.ResultAnswer:
    return wire.ResultAnswer(
        lease_id=result.lease_id, sequence=result.sequence, status=status, match_id=match_id, detail=detail
    )


def _key(result: wire.Result) -> Key:
    return result.lease_id, result.sequence


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))
